"""The table of docs/compress.md: answers of every method on all tasks, from benchmarks/results.

`python -m benchmarks.suites.compression.means` puts it into the page, between the two marks that it has for
it. Only the new documents stand there; docs/results.md has the other groups. `python -m docs.tools.pictures`
draws the numbers of all.

For each group of prompts: a line for each method, a column for each number of times that it is smaller than
the prompt, if any was measured at it. Sums go over the prompts that every method of a column was measured on.
"""

import json
from collections.abc import Sequence
from typing import Any

from benchmarks.harness.folders import RESULTS, ROOT
from benchmarks.suites.compression.prompts import DOCUMENTS, EARLIER_DOCUMENTS, TASKS

FULL = "full prompt"
PAGE = ROOT / "docs" / "compress.md"
BEGIN, END = "<!-- table: python -m benchmarks.suites.compression.means -->", "<!-- end of the table -->"
METHODS = ("recall", "recall, distilled", "KVSculpt", "Attention Matching", "KVzip", "KVgrad", "KVCompose")
"""Methods of the table; the JSON files have all that were measured."""
TIMES = (4, 8, 16, 32)
SHOWN = "new documents"
"""The group on the page of compression."""
_SHORT = {"Attention Matching, sizes by head": "Attention Matching", "selection as in KVzip": "KVzip"}
_LABELS = {"facts": "handbooks", "examples": "worked examples"}
Rows = Sequence[dict[str, Any]]


def groups() -> dict[str, list[dict[str, Any]]]:
    """The rows of each group of prompts, with the names of the methods as the table has them."""
    rows = _read("compress_results")["rows"]
    # Equal sizes are a weaker form of Attention Matching than sizes by head.
    rows = [_renamed(row) for row in rows if row["method"] != "Attention Matching"]
    tasks = {
        _LABELS.get(task, task): [row for row in rows if row["prompt"] in names]
        for task, names in TASKS.items()
    }
    second = [_renamed(row) for row in _read("compress_second")]
    documents = {
        "new documents": _documents(DOCUMENTS),
        "earlier documents": _documents(EARLIER_DOCUMENTS),
    }
    return {**documents, **tasks, "handbooks, Gemma 3 270M": second}


def _documents(names: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {**row, "prompt": row["document"], "answers": row["kept"], "questions": row.get("asked", 0)}
        for row in _read("compress_documents")
        if row["document"] in names
    ]


def _read(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text())


def _renamed(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "method": _SHORT.get(row["method"], row["method"])}


def table(rows_by_group: dict[str, list[dict[str, Any]]]) -> str:
    """Markdown: answers by group, method and number of times smaller."""
    columns_by_group = {group: columns_of(rows) for group, rows in rows_by_group.items()}
    times = [column.many for columns in columns_by_group.values() for column in columns if column.prompts]
    lines = [
        _line("answers", "", *(f"{many}x" for many in sorted(set(times)))),
        _line("---", "---", *["---:"] * len(set(times))),
    ]
    for group, rows in rows_by_group.items():
        columns = [column for column in columns_by_group[group] if column.many in times]
        full = [f"{column.full} of {column.asked}" if column.prompts else "-" for column in columns]
        lines.append(_line(f"**{group}**", FULL, *full))
        measured = {row["method"] for row in rows}
        for method in METHODS:
            if method in measured:
                lines.append(_line("", method, *(column.cell(method) for column in columns)))
    return "\n".join(lines)


def _line(*cells: str) -> str:
    return f"|{'|'.join(cells)}|"


def columns_of(rows: Rows) -> list["Column"]:
    """A column for each number of times smaller."""
    prompts = list(dict.fromkeys(row["prompt"] for row in rows))
    return [Column(rows, prompts, many) for many in TIMES]


class Column:
    """One number of times smaller: the sums of all methods over the same prompts."""

    def __init__(self, rows: Rows, prompts: Sequence[str], many: int):
        shown = [row for row in rows if row["method"] in METHODS]
        own = [row for row in shown if row["prompt"] in prompts and row["times"] == many]
        self.many = many
        self.prompts = [name for name in prompts if any(row["prompt"] == name for row in own)]
        self.rows = {(row["method"], row["prompt"]): row for row in own}
        self.full = sum(
            row["answers"] for row in rows if row["method"] == FULL and row["prompt"] in self.prompts
        )
        self.asked = sum(
            row["questions"] for row in rows if row["method"] == FULL and row["prompt"] in self.prompts
        )

    def sum(self, method: str) -> int | None:
        """The answers of a method on all prompts of the column; None if one is missing."""
        answers = [self.rows[method, name]["answers"] for name in self.prompts if (method, name) in self.rows]
        return sum(answers) if answers and len(answers) == len(self.prompts) else None

    def cell(self, method: str) -> str:
        """The sum, bold if no method has more; what a method did on fewer prompts says on how many."""
        total = self.sum(method)
        if total is not None:
            best = all(total >= (self.sum(other) or 0) for other in METHODS)
            return f"**{total}**" if best else str(total)
        some = [row for (name, _), row in self.rows.items() if name == method]
        return f"{sum(row['answers'] for row in some)} ({len(some)})" if some else "-"


def put_into(page: str, text: str) -> str:
    """The page with this table in the place of the one it has."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(put_into(PAGE.read_text(), table({SHOWN: groups()[SHOWN]})))
