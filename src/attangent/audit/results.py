"""A run as a user reads it: one result per claim with its values over seeds, and tables of all findings."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attangent._core.display import brief
from attangent._core.errors import AttangentError
from attangent.audit.claims import claim_order
from attangent.audit.finding import Finding, Verdict, pooled
from attangent.audit.storing import FindingRecord, Origin, Store, plain
from attangent.audit.verdicts import Judgement, over_seeds, overall

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as MatplotlibFigure

_TEXTS = (
    "claim",
    "paper",
    "place",
    "title",
    "kind",
    "nature",
    "plain",
    "quote",
    "statement",
    "ours",
    "erratum",
)


@dataclass(frozen=True)
class SeedValues:
    """One named number, measured with each seed."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return sum(self.values) / len(self.values)

    @property
    def deviation(self) -> float:
        """The sample standard deviation: 0 for a single seed, NaN if a value is not finite."""
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
    """The findings of a run on one claim, one per seed.

    Attributes:
        records: The findings with their origin, in the order of the seeds.

    Example:
        >>> import tempfile
        >>> from attangent.audit import run
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result = run(["P2/definition-3.6"], seeds=2, out=folder).results()[0]
        >>> result.verdict.value, result.seeds
        ('holds', (0, 1))
    """

    records: tuple[FindingRecord, ...]

    def __repr__(self) -> str:
        return brief(self, claim=self.claim, verdict=self.verdict.value, seeds=len(self.records))

    def _repr_html_(self) -> str:
        from attangent.audit.report.page import result_html

        return result_html(self)

    def plot(self, path: str | PathLike[str] | None = None) -> "MatplotlibFigure":
        """Draw the figures of the finding that decides, one panel per figure.

        Args:
            path: A .png, .svg or .pdf file to write as well.

        Returns:
            The matplotlib figure.

        Raises:
            AttangentError: If the finding has no figure, or the path ends in something else.
        """
        from attangent.audit.report.figures import plot_figures

        return plot_figures(self.deciding.finding.figures, path, self.claim)

    @property
    def origin(self) -> Origin:
        """The claim's texts and settings."""
        return self.records[0].origin

    @property
    def claim(self) -> str:
        """The id of the claim."""
        return self.origin.claim

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds, in order."""
        return tuple(record.origin.seed for record in self.records)

    @property
    def seconds(self) -> float:
        """The time all checks took together."""
        return sum(record.seconds for record in self.records)

    @property
    def verdict(self) -> Verdict:
        """The verdict over all parts and seeds.

        One counter-example decides. A fitted exponent or an interval refutes if at least three seeds, and
        all of them, show it.
        """
        if all(record.finding.crash for record in self.records):
            return Verdict.CRASHED
        return overall(self._judgements.values())

    @cached_property
    def _pooled(self) -> tuple[FindingRecord, ...]:
        """The records, with exponents fitted to all seeds together."""
        findings = pooled([record.finding for record in self.records])
        return tuple(
            replace(record, finding=finding) for record, finding in zip(self.records, findings, strict=True)
        )

    @cached_property
    def _judgements(self) -> dict[str, Judgement]:
        judged = [record.finding.judgements for record in self._pooled]
        names = dict.fromkeys(name for parts in judged for name in parts)
        return {name: over_seeds([parts[name] for parts in judged if name in parts]) for name in names}

    @property
    def parts(self) -> dict[str, Verdict]:
        """The verdict on each named part of the statement, over all seeds by the same rules."""
        return {name: judgement.verdict for name, judgement in self._judgements.items() if name}

    @property
    def deciding(self) -> FindingRecord:
        """The record that every output shows: the first whose verdict is that of the result.

        Among several counter-examples, one with its hypotheses met goes first.
        """
        agreeing = [record for record in self._pooled if record.finding.verdict == self.verdict]
        failed = [record for record in self._pooled if record.finding.verdict.failed]
        shown = agreeing or failed or list(self._pooled)
        return next((record for record in shown if record.finding.hypotheses_met), shown[0])

    @property
    def is_ours(self) -> bool:
        """Whether the statement is ours and not the paper's."""
        return self.origin.kind == "ours"

    @property
    def numbers(self) -> dict[str, SeedValues]:
        """Each named number with its values over the seeds that measured it."""
        rows = [record.finding.numbers for record in self.records]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: SeedValues(tuple(row[name] for row in rows if name in row)) for name in names}

    def as_json(self) -> dict[str, Any]:
        """Return this result in JSON's types."""
        finding = self.deciding.finding
        spreads = {
            name: {"mean": s.mean, "deviation": s.deviation, "low": s.low, "high": s.high, "values": s.values}
            for name, s in self.numbers.items()
        }
        return plain(
            {
                **{name: getattr(self.origin, name) for name in _TEXTS},
                "verdict": self.verdict.value,
                "parts": {name: verdict.value for name, verdict in self.parts.items()},
                "verdicts": {str(r.origin.seed): r.finding.verdict.value for r in self.records},
                "hypotheses": [_row(h, met=h.met) for h in finding.hypotheses],
                "conclusions": [
                    _row(
                        line,
                        kept=line.kept,
                        decides=line.decides,
                        slack=line.slack,
                        cannot_fail=line.cannot_fail,
                        interval=line.confidence,
                    )
                    for line in finding.conclusions
                ],
                "differs": finding.differs,
                "smaller": finding.smaller,
                "rests_on": self.origin.rests_on,
                "repairs": self.origin.repairs,
                "sharp": self.origin.sharp,
                "failure": self.origin.failure and asdict(self.origin.failure),
                "proof": finding.proof and asdict(finding.proof),
                "numbers": spreads,
                "remark": finding.remark,
                "settings": self.origin.settings,
                "seconds": self.seconds,
            }
        )


@dataclass(frozen=True, repr=False)
class Run:
    """The findings in the folder of a run.

    Attributes:
        folder: The folder.
        profile: The profile of the run, quick or full.
        records: The findings with their origin.
        failures: Claim, seed, traceback and origin of each check that crashed.
        problems: What is wrong with each file that could not be trusted.

    Example:
        >>> import tempfile
        >>> from attangent.audit import run
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     frame = run(["P2/definition-3.6"], seeds=1, out=folder).frame()
        >>> set(frame["verdict"])
        {'holds'}
    """

    folder: Path
    profile: str
    records: tuple[FindingRecord, ...]
    failures: tuple[dict[str, Any], ...]
    problems: dict[Path, str]

    def __repr__(self) -> str:
        counts = totals(self.results())
        shown = {verdict.replace(" ", "_"): count for verdict, count in counts.items() if count}
        return brief(self, folder=str(self.folder), profile=self.profile, **shown)

    def _repr_html_(self) -> str:
        from attangent.audit.report.page import run_html

        return run_html(self)

    def plot(self, path: str | PathLike[str] | None = None) -> "MatplotlibFigure":
        """Draw the papers' statements by verdict, those that fail by weight, one bar per paper.

        Args:
            path: A .png, .svg or .pdf file to write as well.

        Returns:
            The matplotlib figure.

        Raises:
            AttangentError: If the run has no findings, or the path ends in something else.
        """
        from attangent.audit.report.figures import plot_verdicts

        return plot_verdicts(self, path)

    def results(self) -> list[Result]:
        """Return one result per claim, sorted by paper and id; a check that crashed has one too."""
        grouped: dict[str, list[FindingRecord]] = {}
        measured = {(record.origin.claim, record.origin.seed) for record in self.records}
        crashed = (
            _crashed(f, self.profile) for f in self.failures if (f["claim"], f["seed"]) not in measured
        )
        for record in sorted(
            (*self.records, *crashed), key=lambda r: (claim_order(r.origin.claim), r.origin.seed)
        ):
            grouped.setdefault(record.origin.claim, []).append(record)
        return [Result(tuple(records)) for records in grouped.values()]

    def frame(self) -> "pd.DataFrame":
        """Return a table with one row per claim, seed and conclusion: bound, measured value and verdict."""
        import pandas as pd

        rows = [
            {
                **{
                    name: getattr(record.origin, name) for name in ("claim", "paper", "place", "seed", "kind")
                },
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
        """Return a table with one row per claim, seed and named number."""
        import pandas as pd

        rows = [
            {"claim": record.origin.claim, "seed": record.origin.seed, "name": name, "value": value}
            for result in self.results()
            for record in result.records
            for name, value in record.finding.numbers.items()
        ]
        return pd.DataFrame(rows, columns=["claim", "seed", "name", "value"])

    def as_json(self) -> dict[str, Any]:
        """Return the run in JSON's types."""
        from attangent.audit.causes import as_json

        results = self.results()
        return {
            "profile": self.profile,
            "folder": str(self.folder),
            "totals": totals(result for result in results if not result.is_ours),
            "ours": totals(result for result in results if result.is_ours),
            "papers": as_json(results),
            "results": [result.as_json() for result in results],
            "failures": [
                {name: failure[name] for name in ("claim", "seed", "traceback")} for failure in self.failures
            ],
            "problems": {path.name: reason for path, reason in self.problems.items()},
        }


def totals(results: Iterable[Result]) -> dict[str, int]:
    """Count these results by verdict."""
    verdicts = [result.verdict for result in results]
    return {verdict.value: verdicts.count(verdict) for verdict in Verdict}


def counted(counts: dict[str, int]) -> str:
    """Return the counts of `totals` on one line, without the zeros."""
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)


def load(run: str | Path) -> Run:
    """Load a run from its folder.

    Args:
        run: The folder that `run` or `attangent audit` wrote.

    Returns:
        The run. Files that cannot be trusted are listed in its `problems`.

    Raises:
        AttangentError: If the path is a file, or no run is in the folder.

    Example:
        >>> import tempfile
        >>> from attangent.audit import run
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = run(["P2/definition-3.6"], seeds=1, out=folder)
        ...     loaded = load(folder)
        >>> [result.claim for result in loaded.results()]
        ['P2/definition-3.6']
    """
    folder = Path(run)
    if folder.exists() and not folder.is_dir():
        raise AttangentError(f"{folder} is a file; pass the folder of an audit run")
    store = Store(folder)
    profile = store.profile()
    if profile is None:
        raise AttangentError(f"{folder} holds no audit run; start one with `attangent audit --out {folder}`")
    records, problems = store.read_all()
    return Run(folder, profile, tuple(records), tuple(store.read_failures()), problems)


def _row(line: Any, **extra: Any) -> dict[str, Any]:
    return {**asdict(line), **extra}


def _crashed(failure: dict[str, Any], profile: str) -> FindingRecord:
    """Turn a failure into a record, so that it is listed and shown like any other finding."""
    claim = failure["claim"]
    origin = failure.get("origin") or Origin(claim, claim, "", "", profile, {}, failure["seed"], "")
    lines = failure["traceback"].strip().splitlines() or ["no traceback"]
    return FindingRecord(origin, Finding((), crash=lines[-1]), 0.0, {})
