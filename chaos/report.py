"""Results of a chaos run as JSON and Markdown."""

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from chaos.fuzz import Ended
from chaos.outcomes import ANSWERED, DIED, FOREIGN, HANG, NAN, OWN, REFUSED

KINDS = (ANSWERED, REFUSED, OWN, FOREIGN, NAN, HANG, DIED)
_MOST_FOREIGN = 0.001


class Bar(NamedTuple):
    """What was to be reached, what was found, and whether it is enough."""

    target: str
    found: str
    met: bool


class Report:
    """Counts by part, every outcome that needs an explanation, and whether the bars are met."""

    def __init__(self, seed: int):
        self.seed = seed
        self.seconds: dict[str, float] = {}
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
        for part, took in other["seconds"].items():
            self.seconds[part] = self.seconds.get(part, 0.0) + took
        for part, counts in other["counts"].items():
            self.counts.setdefault(part, Counter()).update(counts)
        for part, found in other["to_explain"].items():
            self.to_explain.setdefault(part, []).extend(Ended(**one) for one in found)
        for part, done in other["done"].items():
            self.done.setdefault(part, []).extend(done)

    @property
    def passed(self) -> bool:
        """No hang, no death, no NaN, few exceptions of others, and everything else went well."""
        return bool(self.bars()) and all(bar.met for bar in self.bars())

    def bars(self) -> list[Bar]:
        """The bars of the parts that were run."""
        total = sum((Counter(counts) for counts in self.counts.values()), Counter())
        inputs = total.total()
        bars = [
            Bar(f"{word}: none in {inputs:,} inputs", f"{total[kind]:,}", not total[kind])
            for kind, word in ((HANG, "hangs (10 s)"), (NAN, "NaN"), (DIED, "deaths (2 GiB)"))
            if inputs
        ]
        if inputs:
            share = total[FOREIGN] / inputs
            found = f"{total[FOREIGN]:,} ({share:.3%})"
            bars.append(Bar("exceptions of others: at most .1 %", found, share <= _MOST_FOREIGN))
        for part, done in self.done.items():
            well = sum(one["well"] for one in done)
            bars.append(Bar(f"{part}: all well", f"{well} of {len(done)}", well == len(done)))
        return bars

    def content(self) -> dict[str, Any]:
        """Everything, as JSON knows it."""
        return {
            "seed": self.seed,
            "passed": self.passed,
            "bars": [bar._asdict() for bar in self.bars()],
            "seconds": self.seconds,
            "counts": self.counts,
            "to_explain": {part: [one._asdict() for one in found] for part, found in self.to_explain.items()},
            "done": self.done,
        }

    def write(self, folder: Path) -> None:
        """Write chaos.json and chaos.md to a folder."""
        (folder / "chaos.json").write_text(json.dumps(self.content(), indent=2) + "\n")
        (folder / "chaos.md").write_text(self.markdown())

    def markdown(self) -> str:
        """The same for people."""
        lines = [f"# Chaos with seed {self.seed}: {'passed' if self.passed else 'not passed'}", ""]
        lines += ["| bar | found | |", "|---|---|---|"]
        lines += [f"| {bar.target} | {bar.found} | {'met' if bar.met else 'MISSED'} |" for bar in self.bars()]
        lines += ["", *(f"{part} took {took:.0f} s." for part, took in self.seconds.items()), ""]
        if self.counts:
            lines += [f"| part | {' | '.join(KINDS)} | inputs |", "|---" * (len(KINDS) + 2) + "|"]
        for part, counts in self.counts.items():
            cells = " | ".join(f"{counts[kind]:,}" for kind in KINDS)
            lines.append(f"| {part} | {cells} | {counts.total():,} |")
        for part, found in self.to_explain.items():
            lines += ["", f"## {part}: to be explained", ""]
            lines += [f"- case {e.index}, {e.entry} {e.changed}: {e.kind} {e.detail}" for e in found]
        for part, found in self.done.items():
            lines += ["", f"## {part}", ""]
            lines += [f"- {'well' if one['well'] else 'NOT WELL'}: {_words(one)}" for one in found]
        return "\n".join(lines) + "\n"


def _words(one: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in one.items() if name != "well" and value != "")
