"""The tables of docs/compress.md, made from the rows of benchmarks/results/compress_results.json.

`python -m benchmarks.suites.compression.means` puts them into the page, between the two marks that it has
for them.

For each task one table: a line for each method, a column for each number of times that it is smaller than the
prompt. Sums go over the prompts that every method of a column was measured on.
"""

import json
from collections.abc import Sequence
from typing import Any

from benchmarks.harness.folders import RESULTS, ROOT
from benchmarks.suites.compression.prompts import TASKS

FULL = "full prompt"
PAGE = ROOT / "docs" / "compress.md"
BEGIN, END = "<!-- tables: python -m benchmarks.suites.compression.means -->", "<!-- end of tables -->"
# Methods per table, the best of each column first; the JSON file has all of them.
_MOST = 6
Rows = Sequence[dict[str, Any]]


def tables(rows: Rows) -> str:
    """Markdown: the answers of every task; of worked examples also those with the full prompt's number."""
    found = []
    for task in TASKS:
        own = [row for row in rows if row["prompt"] in TASKS[task]]
        same = [row | {"answers": row["same"]} for row in own if "same" in row]
        found += [_task(task, own)] if _times(own, TASKS[task]) else []
        found += [_task(task, same, "the same number")] if _times(same, TASKS[task]) else []
    return "\n\n".join(found)


def _task(task: str, rows: Rows, counted: str = "answers") -> str:
    columns = [Column(rows, TASKS[task], many) for many in _times(rows, TASKS[task])]
    methods = _ordered(columns)
    heads = " | ".join(column.title for column in columns)
    lines = [f"**{task}**\n\n| {counted} | {heads} |", f"|---|{'---:|' * len(columns)}"]
    lines.append(f"| {FULL} | {' | '.join(f'{column.full} of {column.asked}' for column in columns)} |")
    lines += [f"| {method} | {' | '.join(column.cell(method) for column in columns)} |" for method in methods]
    return "\n".join(lines)


class Column:
    """One number of times smaller: the sums of all methods over the same prompts."""

    def __init__(self, rows: Rows, prompts: Sequence[str], many: int):
        own = [row for row in rows if row["prompt"] in prompts and row["times"] == many]
        self.many = many
        self.prompts = [name for name in prompts if any(row["prompt"] == name for row in own)]
        self.rows = {(row["method"], row["prompt"]): row for row in own}
        self.full = sum(
            row["answers"] for row in rows if row["method"] == FULL and row["prompt"] in self.prompts
        )
        self.asked = sum(
            row["questions"] for row in rows if row["method"] == FULL and row["prompt"] in self.prompts
        )

    @property
    def title(self) -> str:
        """How many times smaller, and on how many prompts."""
        return f"{self.many}x ({len(self.prompts)})"

    def methods(self) -> list[str]:
        """Those that were measured on every prompt of the column, the best first."""
        names = dict.fromkeys(method for method, _ in self.rows)
        return sorted(
            (name for name in names if self.sum(name) is not None), key=lambda name: -(self.sum(name) or 0)
        )

    def sum(self, method: str) -> int | None:
        """The answers of a method on all prompts of the column; None where one is missing."""
        found = [self.rows.get((method, name)) for name in self.prompts]
        return sum(row["answers"] for row in found if row) if all(found) else None

    def cell(self, method: str) -> str:
        """The sum, bold where no method has more; what a method did on fewer prompts says on how many."""
        total = self.sum(method)
        if total is not None:
            best = all(total >= (self.sum(other) or 0) for other in self.methods())
            return f"**{total}**" if best else str(total)
        some = [row for (name, _), row in self.rows.items() if name == method]
        return f"{sum(row['answers'] for row in some)} ({len(some)})" if some else "-"


def _times(rows: Rows, prompts: Sequence[str]) -> list[int]:
    return sorted({row["times"] for row in rows if row["prompt"] in prompts and row["method"] != FULL})


def _ordered(columns: Sequence[Column]) -> list[str]:
    """The best methods: in turn the first of every column, then the second, and so on."""
    ranked = [column.methods() for column in columns]
    most = max(map(len, ranked), default=0)
    names = [methods[rank] for rank in range(most) for methods in ranked if rank < len(methods)]
    rest = [method for column in columns for method, _ in column.rows]
    return [name for name in dict.fromkeys([*names, *rest]) if name != FULL][:_MOST]


def costs(rows: Rows) -> str:
    """Markdown: means of the KL ratio, processor seconds and share of the cache's bytes on the facts, 8x."""
    lines = ["| facts, 8x smaller | ratio | seconds | share of the bytes |", "|---|---:|---:|---:|"]
    whole = {row["prompt"]: row["bytes"] for row in rows if row["method"] == FULL}
    own = [row for row in rows if row["prompt"] in TASKS["facts"] and row["times"] == 8]
    times = _times(rows, TASKS["facts"])
    shown = _ordered([Column(rows, TASKS["facts"], many) for many in times])
    for method in dict.fromkeys(row["method"] for row in own if row["method"] in shown):
        mine = [row for row in own if row["method"] == method]
        seconds = [row["seconds"] for row in mine if row["seconds"] is not None]
        ratio = sum(row["ratio"] for row in mine) / len(mine)
        share = sum(row["bytes"] / whole[row["prompt"]] for row in mine) / len(mine)
        took = f"{sum(seconds) / len(seconds):.1f}" if seconds else "-"
        lines.append(f"| {method} | {ratio:.3f} | {took} | {share:.1%} |")
    return "\n".join(lines)


def put_into(page: str, rows: Rows) -> str:
    """The page with the tables of these rows in the place of those it has."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables(rows)}\n\n{costs(rows)}\n\n{END}{after}"


if __name__ == "__main__":
    known = json.loads((RESULTS / "compress_results.json").read_text())["rows"]
    PAGE.write_text(put_into(PAGE.read_text(), known))
