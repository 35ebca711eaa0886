"""Display of results: one-line reprs for a prompt, escaped HTML tables for a notebook."""

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from html import escape
from typing import Any

MOST_ROWS = 40
_BOX = "font-family: system-ui, sans-serif; font-size: 13px; line-height: 1.45; max-width: 64rem"
_CELL = "padding: .2rem .8rem .2rem 0; border-bottom: 1px solid rgba(128,128,128,.25); vertical-align: top"
_TONES = {"good": "#0b8467", "middling": "#1f66b5", "bad": "#c4560a"}


class Toned(str):
    """A text with a tone (good, middling or bad) that sets its colour."""

    tone: str

    def __new__(cls, text: str, tone: str) -> "Toned":
        toned = super().__new__(cls, text)
        toned.tone = tone
        return toned


def brief(thing: Any, **shown: Any) -> str:
    """Return a one-line repr with the class name and these values.

    Example:
        >>> brief(1.0, size=64, share=0.123456)
        'float(size=64, share=0.1235)'
    """
    return f"{type(thing).__name__}({', '.join(f'{name}={_short(value)}' for name, value in shown.items())})"


def brief_fields(self: Any) -> str:
    """Return the repr of a dataclass, with arrays by shape and long values shortened."""
    return brief(self, **{field.name: getattr(self, field.name) for field in fields(self) if field.repr})


def table_html(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    notes: Iterable[str] = (),
    most: int = MOST_ROWS,
) -> str:
    """Return a titled, escaped HTML table; rows after the first `most` are only counted."""
    listed = list(rows)
    head = "".join(f"<th style='{_CELL}; text-align: left'>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in listed[:most])
    left = [f"{len(listed) - most} more rows"] if len(listed) > most else []
    grid = f"<table style='border-collapse: collapse'><tr>{head}</tr>{body}</table>" if listed else ""
    return _boxed(title, grid, [*left, *notes])


def facts_html(title: str, facts: Mapping[str, Any], notes: Iterable[str] = ()) -> str:
    """Return a titled, escaped HTML list of names and values."""
    rows = "".join(
        f"<tr><td style='{_CELL}; opacity: .75'>{escape(name)}</td>{_cell(value)}</tr>"
        for name, value in facts.items()
    )
    return _boxed(title, f"<table style='border-collapse: collapse'>{rows}</table>", notes)


def _boxed(title: str, content: str, notes: Iterable[str]) -> str:
    below = "".join(f"<div style='opacity: .8'>{escape(note)}</div>" for note in notes if note)
    return f"<div style='{_BOX}'><div style='font-weight: 600'>{escape(title)}</div>{content}{below}</div>"


def _cell(value: Any) -> str:
    style = _CELL
    text = escape(value if isinstance(value, str) else _short(value))
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        style += "; font-variant-numeric: tabular-nums"
    if isinstance(value, Toned):
        style += f"; color: {_TONES.get(value.tone, 'inherit')}; font-weight: 600"
    return f"<td style='{style}; text-align: left'>{text}</td>"


def _number(value: float) -> str:
    """Return four digits, without an exponent if possible: 143,312, 6.618, 0.0273, 4.3e-31."""
    if value == 0 or not math.isfinite(value) or not 1e-4 <= abs(value) < 1e7:
        return f"{value:.4g}"
    digits = max(0, 3 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def times_of(index: Any) -> list[str]:
    """Return times as texts, without the hour if all of them are midnight."""
    texts = [str(time) for time in index]
    midnight = " 00:00:00"
    days = all(text.endswith(midnight) for text in texts)
    return [text.removesuffix(midnight) for text in texts] if days else texts


def _short(value: Any) -> str:
    """Return a short text: numbers to four digits, arrays by shape, long lists by length."""
    if isinstance(value, bool) or value is None or isinstance(value, numbers.Integral):
        return str(value)
    if isinstance(value, numbers.Real):
        return _number(float(value))
    if hasattr(value, "shape"):
        return f"{type(value).__name__}{tuple(value.shape)}"
    if isinstance(value, str):
        return repr(str(value)) if len(value) <= 60 else f"{value[:57]!r}..."
    if isinstance(value, Sequence | Mapping | set | frozenset) and len(value) > 4:
        return f"<{len(value)} {'entries' if isinstance(value, Mapping) else 'items'}>"
    text = repr(value)
    return text if len(text) <= 80 else f"<{type(value).__name__}>"
