"""Output shared by several commands: tables, rows for JSON, and the next command to type."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from pandas import DataFrame


def hint(text: str, quiet: bool = False) -> None:
    """Print what to do next, as the last line."""
    if not quiet:
        typer.echo(f"next: {text}")


def records(frame: "DataFrame") -> list[dict[str, Any]]:
    """Return rows for JSON: null for missing values, times in ISO 8601."""
    return json.loads(str(frame.to_json(orient="records", double_precision=12, date_format="iso")))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], no_wrap: bool = False) -> None:
    """Print a table without lines; it is 200 letters wide if the output is no terminal.

    Args:
        columns: The headings.
        rows: The cells: texts, or what rich can draw.
        no_wrap: Keep cells on one line, except for those of the last column.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=no_wrap and column != columns[-1], overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell) if isinstance(cell, str) else cell for cell in row))
    console = Console(width=None if sys.stdout.isatty() else 200)
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        typer.echo(line.rstrip())
