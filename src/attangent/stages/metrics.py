"""Read losses from the files that training leaves: a CSV, a Trainer's state, or TensorBoard events."""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from attangent._core.errors import AttangentError
from attangent._core.tables import check_columns, check_header, check_row_width, is_number, reading_table

_STEPS = ("step", "global_step", "_step", "steps", "iteration", "iter", "epoch")
_NO_LOSS = ("learning_rate", "epoch", "step", "total_flos", "grad_norm", "global_step")
_LONG = ("group", "step", "loss")


def read_metrics(
    path: str | Path, groups: Iterable[str] | None = None, step: str | None = None
) -> pd.DataFrame:
    """Read losses from a CSV, a trainer_state.json, or a folder of TensorBoard events.

    A CSV has a column of steps and one column per group, or the columns group, step and loss; empty cells are
    gaps. If the steps of TensorBoard events go back, the run was resumed: later events replace earlier ones.

    Args:
        path: The file, or a folder with one run's events.
        groups: Columns or tags to read; by default all columns of numbers, or all tags with "loss" in them.
        step: The CSV's column of steps; by default step, global_step, iteration or epoch.

    Returns:
        One row per reading, with the columns group, step, loss and row (the row in the file).

    Raises:
        AttangentError: If the file cannot be read, a group is missing, a number is not finite, or steps
            repeat or go back; the message names the row.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "metrics.csv")
        >>> _ = path.write_text("step,train,eval\\n0,2.0,2.1\\n10,1.5,\\n")
        >>> read_metrics(path)["group"].tolist()
        ['train', 'train', 'eval']
    """
    file = Path(path)
    if not file.is_file() and not file.is_dir():
        raise AttangentError(f"there is no file or folder {file}, or it is a pipe or a device")
    names = None if groups is None else [*groups]
    is_table = not file.is_dir() and "tfevents" not in file.name and file.suffix.lower() != ".json"
    if step is not None and not is_table:
        raise AttangentError(f"step names the column {step!r} of a CSV, but {file} is none; leave it out")
    if is_table:
        frame = _from_csv(file, names, step)
    elif file.is_file() and file.suffix.lower() == ".json":
        frame = _from_trainer(file, names)
    else:
        frame = _from_tensorboard(file, names)
    for name, rows in frame.groupby("group", sort=False):
        _check_rising(str(name), rows, file)
    return frame


def _from_csv(file: Path, names: list[str] | None, step: str | None) -> pd.DataFrame:
    check_header(file)
    with reading_table(file):
        header = pd.read_csv(file, header=None, nrows=1, dtype=str, encoding="utf-8-sig")
        check_columns(header.iloc[0], file)
        check_row_width(pd.read_csv(file, nrows=1, dtype=str, encoding="utf-8-sig"), file)
        # As text: pandas' own parser would not tell which row holds a cell that is no number.
        cells = pd.read_csv(file, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    if not set(_LONG) <= set(cells.columns) or step is not None:
        return _numbers(_long(cells, file, names, step), file)
    missing = [name for name in names or () if name not in set(cells["group"])]
    if missing:
        raise AttangentError(f"{file} has no group {missing[0]!r}, expected some of those in it")
    rows = cells[[*_LONG]].assign(row=range(2, len(cells) + 2))
    chosen = [names is None or name in names for name in rows["group"]]
    return _numbers(rows.loc[chosen], file)


def _long(cells: pd.DataFrame, file: Path, names: list[str] | None, step: str | None) -> pd.DataFrame:
    """Turn one column per group into the columns group, step, loss and row."""
    columns = f"{', '.join(cells.columns):.300}"
    steps = step or next((name for name in _STEPS if name in cells.columns), None)
    if steps is None or steps not in cells.columns:
        raise AttangentError(
            f"{file} has no column {steps or 'of steps'}, its columns are {columns}; name the column of steps"
        )
    chosen = names if names is not None else _numeric_columns(cells, steps)
    missing = [name for name in chosen if name not in cells.columns]
    if missing or not chosen:
        raise AttangentError(
            f"{file} has no column {', '.join(missing) or 'of losses'}, its columns are {columns}"
        )
    rows = range(2, len(cells) + 2)
    frames = [
        pd.DataFrame({"step": cells[steps], "row": rows, "group": name, "loss": cells[name]})
        for name in dict.fromkeys(chosen)
    ]
    return pd.concat(frames, ignore_index=True)


def _numeric_columns(cells: pd.DataFrame, steps: str) -> list[str]:
    """Return the columns whose first non-empty cell is a number."""
    names = [name for name in cells.columns if name != steps and name not in _NO_LOSS]
    first = {name: next((cell for cell in cells[name] if cell.strip()), "") for name in names}
    return [name for name, cell in first.items() if is_number(cell)]


def _numbers(rows: pd.DataFrame, file: Path) -> pd.DataFrame:
    """Convert cells to numbers and leave out gaps."""
    rows = rows.loc[[bool(cell.strip()) for cell in rows["loss"]]].copy()
    for column in ("step", "loss"):
        wrong = [not is_number(cell) for cell in rows[column]]
        if any(wrong):
            first = rows.iloc[wrong.index(True)]
            raise AttangentError(
                f"row {first['row']} of {file}: {column} is {first[column]!r:.60}, expected a number"
            )
        rows[column] = [float(cell) for cell in rows[column]]
    return rows


def _from_trainer(file: Path, names: list[str] | None) -> pd.DataFrame:
    """Read the log_history of a transformers Trainer."""
    try:
        history = json.loads(file.read_text(encoding="utf-8"))["log_history"]
        entries = [dict(entry) for entry in history]
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        raise AttangentError(f"{file} is no trainer_state.json: expected JSON with a log_history") from None
    rows = [
        {"group": name, "step": entry["step"], "loss": value, "row": number}
        for number, entry in enumerate(entries, 1)
        for name, value in entry.items()
        if "step" in entry and _is_loss(name, value, names)
    ]
    return _tagged(rows, names, file, {name for entry in entries for name in entry})


def _is_loss(name: str, value: Any, names: list[str] | None) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return name in names if names is not None else "loss" in name and name != "train_loss"


def _from_tensorboard(path: Path, names: list[str] | None) -> pd.DataFrame:
    try:
        from tensorboard.backend.event_processing import event_accumulator  # type: ignore[import-not-found]
    except ImportError:
        raise AttangentError(
            f"{path} holds TensorBoard events, and tensorboard is not installed: install it, or "
            "export the scalars as CSV"
        ) from None
    events = event_accumulator.EventAccumulator(str(_run(path)), size_guidance={"scalars": 0})
    events.Reload()
    tags = events.Tags()["scalars"]
    rows = [
        {"group": tag, "step": event.step, "loss": event.value, "row": number}
        for tag in tags
        if (tag in names if names is not None else "loss" in tag.lower())
        for number, event in _resumed(events.Scalars(tag))
    ]
    return _tagged(rows, names, path, set(tags))


def _run(path: Path) -> Path:
    """Return the one folder at or below `path` that holds events, or the file of events itself."""
    if path.is_file():
        return path
    runs = sorted({file.parent for file in path.rglob("*tfevents*")})
    if len(runs) != 1:
        folders = ", ".join(str(run.relative_to(path)) for run in runs) or "none"
        raise AttangentError(
            f"{path} holds {len(runs)} runs with TensorBoard events ({folders}), expected one: "
            "pass the folder of one run"
        )
    return runs[0]


def _resumed(events: list[Any]) -> list[tuple[int, Any]]:
    """Number the events from 1; when a resumed run goes back, its events replace the earlier ones."""
    numbered: list[tuple[int, Any]] = []
    for number, event in enumerate(events, 1):
        if numbered and event.step < numbered[-1][1].step:
            numbered = [(before, old) for before, old in numbered if old.step < event.step]
        numbered.append((number, event))
    return numbered


def _tagged(rows: list[dict[str, Any]], names: list[str] | None, path: Path, tags: set[str]) -> pd.DataFrame:
    missing = sorted(set(names or ()) - {row["group"] for row in rows})
    if missing or not rows:
        raise AttangentError(
            f"{path} has no readings of {', '.join(missing) or 'any loss'}, "
            f"it has {', '.join(sorted(tags)) or 'none'}"
        )
    return pd.DataFrame(rows)


def _check_rising(name: str, rows: pd.DataFrame, file: Path) -> None:
    before = -math.inf
    for row, step, loss in zip(rows["row"], rows["step"], rows["loss"], strict=True):
        if not math.isfinite(step) or not math.isfinite(loss):
            raise AttangentError(
                f"row {row} of {file}: {name} is {loss} at step {step}, expected finite numbers; leave "
                "the cell empty if nothing was read"
            )
        if step <= before:
            what = "comes twice" if step == before else f"comes after step {before:g}"
            raise AttangentError(
                f"row {row} of {file}: step {step:g} of {name} {what}, expected rising steps"
            )
        before = step
