"""Readings from what training leaves behind: a CSV, a Trainer's state, or TensorBoard's events."""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from attangent._core.errors import AttangentError
from attangent._core.tables import check_columns, check_header, is_number, reading_table

_STEPS = ("step", "global_step", "_step", "steps", "iteration", "iter", "epoch")
_NO_LOSS = ("learning_rate", "epoch", "step", "total_flos", "grad_norm", "global_step")
_LONG = ("group", "step", "loss")


def read_metrics(
    path: str | Path, groups: Iterable[str] | None = None, step: str | None = None
) -> pd.DataFrame:
    """Readings (group, step, loss) from a CSV, a trainer_state.json, or a folder of TensorBoard events.

    A CSV has a column of steps (`step` names it; step, global_step, iteration or epoch are found) and one
    column per group, or the columns group, step, loss. `groups` names those to read; without it all columns
    of numbers are read, or for logs all tags with "loss" in their name. Empty cells are gaps. Steps that
    repeat or go back, and readings that are no finite number, are refused with their row; in TensorBoard's
    events a step that goes back is a run that was resumed, and replaces what came after that step.
    """
    place = Path(path)
    if not place.is_file() and not place.is_dir():
        raise AttangentError(f"there is no file or folder {place}, or it is a pipe or a device")
    wanted = None if groups is None else [*groups]
    if place.is_dir() or "tfevents" in place.name:
        frame = _from_tensorboard(place, wanted)
    elif place.suffix.lower() == ".json":
        frame = _from_trainer(place, wanted)
    else:
        frame = _from_csv(place, wanted, step)
    _check(frame, place)
    return frame


def _from_csv(place: Path, wanted: list[str] | None, step: str | None) -> pd.DataFrame:
    check_header(place)
    with reading_table(place):
        header = pd.read_csv(place, header=None, nrows=1, dtype=str, encoding="utf-8-sig")
        check_columns(header.iloc[0], place)
        frame = pd.read_csv(place, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    if set(_LONG) <= set(frame.columns) and step is None:
        long = frame[[*_LONG]].assign(row=range(2, len(frame) + 2))
        missing = [name for name in wanted or () if name not in set(long["group"])]
        if missing:
            raise AttangentError(f"{place} has no group {missing[0]!r}, expected some of those in it")
        long = long if wanted is None else long[[name in wanted for name in long["group"]]]
        return _numbers(long, place)
    steps = step or next((name for name in _STEPS if name in frame.columns), None)
    if steps is None or steps not in frame.columns:
        raise AttangentError(
            f"{place} has no column {steps or 'of steps'}, its columns are {', '.join(frame.columns)}; name "
            "the column of steps"
        )
    chosen = wanted if wanted is not None else _numeric_columns(frame, steps)
    missing = [name for name in chosen if name not in frame.columns]
    if missing or not chosen:
        raise AttangentError(
            f"{place} has no column {', '.join(missing) or 'of losses'}, "
            f"its columns are {', '.join(frame.columns)}"
        )
    rows = range(2, len(frame) + 2)
    parts = [
        pd.DataFrame({"step": frame[steps], "row": rows, "group": name, "loss": frame[name]})
        for name in dict.fromkeys(chosen)
    ]
    return _numbers(pd.concat(parts, ignore_index=True), place)


def _numeric_columns(frame: pd.DataFrame, steps: str) -> list[str]:
    """Columns whose first cell that is not empty is a number."""
    named = [name for name in frame.columns if name != steps and name not in _NO_LOSS]
    first = {name: next((cell for cell in frame[name] if cell.strip()), "") for name in named}
    return [name for name, cell in first.items() if is_number(cell)]


def _numbers(long: pd.DataFrame, place: Path) -> pd.DataFrame:
    """Cells as numbers, gaps left out."""
    long = long.loc[[bool(cell.strip()) for cell in long["loss"]]].copy()
    for column in ("step", "loss"):
        wrong = [not is_number(cell) for cell in long[column]]
        if any(wrong):
            first = long.iloc[wrong.index(True)]
            raise AttangentError(
                f"row {first['row']} of {place}: {column} is {first[column]!r}, expected a number"
            )
        long[column] = [float(cell) for cell in long[column]]
    return long


def _from_trainer(place: Path, wanted: list[str] | None) -> pd.DataFrame:
    """The log_history of a transformers Trainer."""
    try:
        history = json.loads(place.read_text(encoding="utf-8"))["log_history"]
        entries = [dict(entry) for entry in history]
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        raise AttangentError(f"{place} is no trainer_state.json: expected JSON with a log_history") from None
    rows = [
        {"group": name, "step": entry["step"], "loss": value, "row": number}
        for number, entry in enumerate(entries, 1)
        for name, value in entry.items()
        if "step" in entry and _chosen(name, value, wanted)
    ]
    return _tagged(rows, wanted, place, {name for entry in entries for name in entry})


def _chosen(name: str, value: Any, wanted: list[str] | None) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return name in wanted if wanted is not None else "loss" in name and name != "train_loss"


def _tagged(
    rows: list[dict[str, Any]], wanted: list[str] | None, place: Path, there: set[str]
) -> pd.DataFrame:
    missing = sorted(set(wanted or ()) - {row["group"] for row in rows})
    if missing or not rows:
        raise AttangentError(
            f"{place} has no readings of {', '.join(missing) or 'any loss'}, "
            f"it has {', '.join(sorted(there)) or 'none'}"
        )
    return pd.DataFrame(rows)


def _from_tensorboard(place: Path, wanted: list[str] | None) -> pd.DataFrame:
    try:
        from tensorboard.backend.event_processing import event_accumulator  # type: ignore[import-not-found]
    except ImportError:
        raise AttangentError(
            f"{place} holds TensorBoard events, and tensorboard is not installed: install it, or "
            "export the scalars as CSV"
        ) from None
    events = event_accumulator.EventAccumulator(str(_run(place)), size_guidance={"scalars": 0})
    events.Reload()
    tags = events.Tags()["scalars"]
    rows = [
        {"group": tag, "step": event.step, "loss": event.value, "row": number}
        for tag in tags
        if (tag in wanted if wanted is not None else "loss" in tag.lower())
        for number, event in _last_run_of_each_step(events.Scalars(tag))
    ]
    return _tagged(rows, wanted, place, set(tags))


def _run(place: Path) -> Path:
    """The one folder at or below this one that holds events, or the file of events itself."""
    if place.is_file():
        return place
    runs = sorted({file.parent for file in place.rglob("*tfevents*")})
    if len(runs) != 1:
        found = ", ".join(str(run.relative_to(place)) for run in runs) or "none"
        raise AttangentError(
            f"{place} holds {len(runs)} runs with TensorBoard events ({found}), expected one: name its folder"
        )
    return runs[0]


def _last_run_of_each_step(events: list[Any]) -> list[tuple[int, Any]]:
    """The events numbered from 1; where a resumed run goes back, what it does again replaces what was."""
    kept: list[tuple[int, Any]] = []
    for number, event in enumerate(events, 1):
        if kept and event.step < kept[-1][1].step:
            kept = [(before, old) for before, old in kept if old.step < event.step]
        kept.append((number, event))
    return kept


def _check(frame: pd.DataFrame, place: Path) -> None:
    for name, part in frame.groupby("group", sort=False):
        before = -math.inf
        for row, step, loss in zip(part["row"], part["step"], part["loss"], strict=True):
            if not math.isfinite(step) or not math.isfinite(loss):
                raise AttangentError(
                    f"row {row} of {place}: {name} is {loss} at step {step}, expected finite numbers; leave "
                    "the cell empty where nothing was read"
                )
            if step <= before:
                what = "comes twice" if step == before else f"comes after step {before:g}"
                raise AttangentError(
                    f"row {row} of {place}: step {step:g} of {name} {what}, expected steps that go up"
                )
            before = step
