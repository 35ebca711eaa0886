"""A run as a user reads it: one result per claim with its spread over seeds, and tables of all findings."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attangent._core.display import brief
from attangent._core.errors import AttangentError
from attangent.audit.claims import claim_order
from attangent.audit.finding import Finding, Verdict
from attangent.audit.storing.record import Origin, Record, plain
from attangent.audit.storing.store import Store

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Picture


SEEDS_OF_A_TREND = 3


@dataclass(frozen=True)
class Spread:
    """One named number over the seeds."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return sum(self.values) / len(self.values)

    @property
    def deviation(self) -> float:
        """The sample standard deviation: 0 for a single seed, NaN where a value is not finite."""
        if not np.isfinite(self.values).all():
            return float("nan")
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else 0.0

    @property
    def low(self) -> float:
        return float(np.min(self.values))

    @property
    def high(self) -> float:
        return float(np.max(self.values))


@dataclass(frozen=True, repr=False)
class Result:
    """What a run says of one claim: one finding per seed, in the order of the seeds."""

    records: tuple[Record, ...]

    def __repr__(self) -> str:
        return brief(self, claim=self.claim, verdict=self.verdict.value, seeds=len(self.records))

    def _repr_html_(self) -> str:
        from attangent.audit.report.notebook import result_html

        return result_html(self)

    def plot(self, path: str | PathLike[str] | None = None) -> "Picture":
        """Draw the figures of the finding that decides; also to a file, where one is named."""
        from attangent.audit.report.notebook import plot_result

        return plot_result(self, path)

    @property
    def origin(self) -> Origin:
        return self.records[0].origin

    @property
    def claim(self) -> str:
        return self.origin.claim

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(record.origin.seed for record in self.records)

    @property
    def seconds(self) -> float:
        return sum(record.seconds for record in self.records)

    @property
    def verdict(self) -> Verdict:
        """One counter-example decides; a trend decides where at least three seeds, and all, show it."""
        combined = Verdict.combine(record.finding.verdict for record in self.records)
        if combined is Verdict.VIOLATED and not self._is_refuted:
            return Verdict.OPEN
        return combined

    @property
    def _is_refuted(self) -> bool:
        violated = [r.finding for r in self.records if r.finding.verdict is Verdict.VIOLATED]
        if any(not finding.refuted_by_trend for finding in violated):
            return True
        return len(violated) >= SEEDS_OF_A_TREND and len(violated) == len(self.records)

    @property
    def parts(self) -> dict[str, Verdict]:
        """The verdict on each named part of the statement, where it has several."""
        judged = [record.finding.judgements for record in self.records]
        names = [name for name in dict.fromkeys(name for parts in judged for name in parts) if name]
        return {
            name: Verdict.combine(parts[name].verdict for parts in judged if name in parts) for name in names
        }

    @property
    def deciding(self) -> Record:
        """The record that shows the verdict, for every output: the first whose own verdict is that of all.

        Of several counter-examples it is the first with the hypotheses met, where there is one.
        """
        agreeing = [record for record in self.records if record.finding.verdict == self.verdict]
        failed = [record for record in self.records if record.finding.verdict.failed]
        shown = agreeing or failed or list(self.records)
        return next((record for record in shown if record.finding.hypotheses_met), shown[0])

    @property
    def is_ours(self) -> bool:
        """Whether the statement is ours and not the paper's."""
        return self.origin.kind == "ours"

    @property
    def numbers(self) -> dict[str, Spread]:
        """Each named number over the seeds that measured it."""
        names = dict.fromkeys(name for record in self.records for name in record.finding.numbers)
        return {
            name: Spread(tuple(r.finding.numbers[name] for r in self.records if name in r.finding.numbers))
            for name in names
        }

    def as_json(self) -> dict[str, Any]:
        """This result in JSON's own types."""
        finding = self.deciding.finding
        spreads = {
            name: {"mean": s.mean, "deviation": s.deviation, "low": s.low, "high": s.high, "values": s.values}
            for name, s in self.numbers.items()
        }
        return plain(
            {
                "claim": self.claim,
                "paper": self.origin.paper,
                "place": self.origin.place,
                "title": self.origin.title,
                "kind": self.origin.kind,
                "quote": self.origin.quote,
                "statement": self.origin.statement,
                "verdict": self.verdict.value,
                "parts": {name: verdict.value for name, verdict in self.parts.items()},
                "verdicts": {str(r.origin.seed): r.finding.verdict.value for r in self.records},
                "hypotheses": [_row(h, met=h.met) for h in finding.hypotheses],
                "conclusions": [
                    _row(c, kept=c.kept, decides=c.decides, slack=c.slack, cannot_fail=c.cannot_fail)
                    for c in finding.conclusions
                ],
                "differs": finding.differs,
                "rests_on": self.origin.rests_on,
                "repairs": self.origin.repairs,
                "numbers": spreads,
                "remark": finding.remark,
                "settings": self.origin.settings,
                "seconds": self.seconds,
            }
        )


@dataclass(frozen=True, repr=False)
class Run:
    """The findings of a run folder, the checks that crashed, and files that could not be trusted."""

    folder: Path
    profile: str
    records: tuple[Record, ...]
    failures: tuple[dict[str, Any], ...]
    problems: dict[Path, str]

    def __repr__(self) -> str:
        found = totals(self.results())
        shown = {verdict.replace(" ", "_"): count for verdict, count in found.items() if count}
        return brief(self, folder=str(self.folder), profile=self.profile, **shown)

    def _repr_html_(self) -> str:
        from attangent.audit.report.notebook import run_html

        return run_html(self)

    def plot(self, path: str | PathLike[str] | None = None) -> "Picture":
        """Draw how the claims of each paper came out; also to a file, where one is named."""
        from attangent.audit.report.notebook import plot_run

        return plot_run(self, path)

    def results(self) -> list[Result]:
        """One result per claim, in the order of papers and claims; a check that crashed has one too."""
        grouped: dict[str, list[Record]] = {}
        there = {(record.origin.claim, record.origin.seed) for record in self.records}
        crashed = (_crashed(f, self.profile) for f in self.failures if (f["claim"], f["seed"]) not in there)
        for record in sorted(
            (*self.records, *crashed), key=lambda r: (claim_order(r.origin.claim), r.origin.seed)
        ):
            grouped.setdefault(record.origin.claim, []).append(record)
        return [Result(tuple(records)) for records in grouped.values()]

    def frame(self) -> "pd.DataFrame":
        """One row for each claim, seed and conclusion, with the bound, the measured value and the verdict."""
        import pandas as pd

        rows = [
            {
                "claim": record.origin.claim,
                "paper": record.origin.paper,
                "place": record.origin.place,
                "seed": record.origin.seed,
                "kind": record.origin.kind,
                "verdict": record.finding.verdict.value,
                "part": conclusion.part,
                "hypotheses_met": record.finding.hypotheses_met,
                "conclusion": conclusion.name,
                "claimed": conclusion.claimed,
                "decides": conclusion.decides,
                "relation": conclusion.relation,
                "bound": conclusion.bound,
                "measured": conclusion.measured,
                "log10": conclusion.log10,
                "kept": conclusion.kept,
                "slack": conclusion.slack,
                "seconds": record.seconds,
            }
            for result in self.results()
            for record in result.records
            for conclusion in record.finding.conclusions
        ]
        return pd.DataFrame(rows)

    def numbers(self) -> "pd.DataFrame":
        """One row for each claim, seed and named number."""
        import pandas as pd

        rows = [
            {"claim": record.origin.claim, "seed": record.origin.seed, "name": name, "value": value}
            for result in self.results()
            for record in result.records
            for name, value in record.finding.numbers.items()
        ]
        return pd.DataFrame(rows, columns=["claim", "seed", "name", "value"])

    def as_json(self) -> dict[str, Any]:
        """The whole run in JSON's own types."""
        results = self.results()
        return {
            "profile": self.profile,
            "folder": str(self.folder),
            "totals": totals(result for result in results if not result.is_ours),
            "ours": totals(result for result in results if result.is_ours),
            "results": [result.as_json() for result in results],
            "failures": [
                {name: failure[name] for name in ("claim", "seed", "traceback")} for failure in self.failures
            ],
            "problems": {path.name: reason for path, reason in self.problems.items()},
        }


def totals(results: Iterable[Result]) -> dict[str, int]:
    """How many of these results have each verdict."""
    found = [result.verdict for result in results]
    return {verdict.value: found.count(verdict) for verdict in Verdict}


def load(run: str | Path) -> Run:
    """The run in this folder; files that cannot be trusted are named in `problems` and left alone."""
    if not isinstance(run, str | Path):
        raise AttangentError(f"a run is {run!r}, expected the path of its folder")
    folder = Path(run)
    if folder.exists() and not folder.is_dir():
        raise AttangentError(f"{folder} is a file, expected the folder of an audit run")
    store = Store(folder)
    profile = store.profile()
    if profile is None:
        raise AttangentError(f"{folder} holds no audit run: make one with `attangent audit --out {folder}`")
    records, problems = store.read_all()
    return Run(folder, profile, tuple(records), tuple(store.read_failures()), problems)


def _row(part: Any, **extra: Any) -> dict[str, Any]:
    return {**asdict(part), **extra}


def _crashed(failure: dict[str, Any], profile: str) -> Record:
    """A failure as a record, so that it is listed and shown like any other finding."""
    claim = failure["claim"]
    origin = failure.get("origin") or Origin(claim, claim, "", "", profile, {}, failure["seed"], "")
    lines = failure["traceback"].strip().splitlines() or ["no traceback"]
    return Record(origin, Finding((), crash=lines[-1]), 0.0, {})
