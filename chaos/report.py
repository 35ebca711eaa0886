"""Results of a chaos run as JSON and Markdown."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from chaos.fuzz import Ended
from chaos.outcomes import ANSWERED, DIED, FOREIGN, HANG, NAN, OWN, REFUSED

_MOST_FOREIGN = 0.001


class Report:
    """Counts by part, every outcome that needs an explanation, and whether the bars are met."""

    def __init__(self, seed: int):
        self.seed = seed
        self.seconds: dict[str, float] = {}
        self.cpu_seconds: dict[str, float] = {}
        self.counts: dict[str, Counter[str]] = {}
        self.to_explain: dict[str, list[Ended]] = {}
        self.done: dict[str, list[dict[str, Any]]] = {}

    def count(self, part: str, ended: Ended) -> None:
        """Count one case of a fuzzer."""
        self.counts.setdefault(part, Counter())[ended.kind] += 1
        if ended.kind not in (ANSWERED, REFUSED, OWN):
            self.to_explain.setdefault(part, []).append(ended)

    def add(self, part: str, well: bool, **what: Any) -> None:
        """Note one thing that was done and whether it went well."""
        print(f"{part}: {'well' if well else 'NOT WELL'}, {_words(what)}", flush=True)
        self.done.setdefault(part, []).append({"well": well, **what})

    def merge(self, other: dict[str, Any]) -> None:
        """Take in what another report has written as JSON."""
        for total, more in ((self.seconds, other["seconds"]), (self.cpu_seconds, other["cpu_seconds"])):
            for part, took in more.items():
                total[part] = total.get(part, 0.0) + took
        for part, counts in other["counts"].items():
            self.counts.setdefault(part, Counter()).update(counts)
        for part, found in other["to_explain"].items():
            self.to_explain.setdefault(part, []).extend(Ended(**one) for one in found)
        for part, done in other["done"].items():
            self.done.setdefault(part, []).extend(done)

    @property
    def passed(self) -> bool:
        """Something was run and every part met its bar."""
        return bool(self.met) and all(self.met.values())

    @property
    def met(self) -> dict[str, bool]:
        """Whether each part met its bar: no hang, death or NaN, few exceptions of others, all else well."""
        fuzzed = {part: _is_met(counts) for part, counts in self.counts.items()}
        return {**fuzzed, **{p: all(one["well"] for one in done) for p, done in self.done.items()}}

    def content(self) -> dict[str, Any]:
        """Everything, as JSON knows it."""
        return {
            "seed": self.seed,
            "passed": self.passed,
            "met": self.met,
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "counts": self.counts,
            "to_explain": {part: [one._asdict() for one in found] for part, found in self.to_explain.items()},
            "done": self.done,
        }

    def write(self, folder: Path) -> None:
        """Write chaos.json and chaos.md to a folder."""
        (folder / "chaos.json").write_text(json.dumps(self.content(), indent=2) + "\n")
        (folder / "chaos.md").write_text(self.markdown())

    def table(self) -> str:
        """Return one row per part: its cases, what became of them, and how long it took."""
        lines = [
            "| part | cases | answered | rejected | not well | seconds | CPU seconds | bar |",
            "|---|---:|---:|---:|---|---:|---:|---|",
        ]
        for part, counts in self.counts.items():
            bad = [f"{counts[kind]:,} {kind}" for kind in (FOREIGN, NAN, HANG, DIED) if counts[kind]]
            cells = (f"{counts.total():,}", f"{counts[ANSWERED]:,}", f"{counts[REFUSED] + counts[OWN]:,}")
            lines.append(self._row(part, cells, bad))
        for part, done in self.done.items():
            bad = [_words(one) for one in done if not one["well"]]
            lines.append(self._row(part, (f"{len(done):,}", "", ""), bad))
        return "\n".join(lines)

    def _row(self, part: str, cells: tuple[str, ...], bad: list[str]) -> str:
        cells = (
            part,
            *cells,
            "; ".join(bad) or "0",
            f"{self.seconds.get(part, 0):.0f}",
            f"{self.cpu_seconds.get(part, 0):.0f}",
            "met" if self.met[part] else "MISSED",
        )
        return f"| {' | '.join(cells)} |"

    def markdown(self) -> str:
        """The table, and everything that was done, for people."""
        lines = [
            f"# Chaos with seed {self.seed}: {'passed' if self.passed else 'not passed'}",
            "",
            self.table(),
        ]
        for part, found in self.to_explain.items():
            lines += ["", f"## {part}: to be explained", ""]
            lines += [f"- case {e.index}, {e.entry} {e.changed}: {e.kind} {e.detail}" for e in found]
        for part, found in self.done.items():
            lines += ["", f"## {part}", ""]
            lines += [f"- {'well' if one['well'] else 'NOT WELL'}: {_words(one)}" for one in found]
        return "\n".join(lines) + "\n"


def _is_met(counts: Counter[str]) -> bool:
    """Return whether a fuzzer found no hang, no NaN, no death and few exceptions of others."""
    return (
        not any(counts[kind] for kind in (NAN, HANG, DIED))
        and counts[FOREIGN] <= _MOST_FOREIGN * counts.total()
    )


def _words(one: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in one.items() if name != "well" and value != "")
