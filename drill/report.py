"""What a drill came to, as JSON and Markdown."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from drill.fuzz import Ended
from drill.outcomes import ANSWERED, DIED, FOREIGN, HANG, NAN, REFUSED

KINDS = (ANSWERED, REFUSED, FOREIGN, NAN, HANG, DIED)
_MOST_FOREIGN = 0.001


class Report:
    """Counts by part, every outcome that needs an explanation, and whether the bars are met."""

    def __init__(self, seed: int):
        self.seed = seed
        self.counts: dict[str, Counter[str]] = {}
        self.to_explain: dict[str, list[Ended]] = {}
        self.done: dict[str, list[dict[str, Any]]] = {}

    def count(self, part: str, ended: Ended) -> None:
        """Count one case of a fuzzer."""
        self.counts.setdefault(part, Counter())[ended.kind] += 1
        if ended.kind not in (ANSWERED, REFUSED):
            self.to_explain.setdefault(part, []).append(ended)

    def add(self, part: str, well: bool, **what: Any) -> None:
        """Note one thing that was done and whether it went well."""
        print(f"{part}: {'well' if well else 'NOT WELL'}, {_words(what)}", flush=True)
        self.done.setdefault(part, []).append({"well": well, **what})

    @property
    def passed(self) -> bool:
        """No hang, no death, no NaN, few exceptions of others, and everything else went well."""
        total = sum((Counter(counts) for counts in self.counts.values()), Counter())
        bad = total[HANG] + total[NAN] + total[DIED]
        few = total[FOREIGN] <= _MOST_FOREIGN * max(1, total.total())
        return not bad and few and all(one["well"] for part in self.done.values() for one in part)

    def write(self, folder: Path) -> None:
        """drill.json and drill.md below a folder."""
        content = {
            "seed": self.seed,
            "passed": self.passed,
            "counts": self.counts,
            "to_explain": {part: [one._asdict() for one in found] for part, found in self.to_explain.items()},
            "done": self.done,
        }
        (folder / "drill.json").write_text(json.dumps(content, indent=2) + "\n")
        (folder / "drill.md").write_text(self.markdown())

    def markdown(self) -> str:
        """The same for people."""
        lines = [f"# Drill with seed {self.seed}: {'passed' if self.passed else 'not passed'}", ""]
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
