"""Stages as a table and as a few lines of text."""

from collections.abc import Sequence

import pandas as pd

from attangent.stages.detector.group import FEWEST, Group, Stage
from attangent.stages.detector.order import Order

COLUMNS = (
    "group",
    "stage",
    "onset",
    "onset_low",
    "onset_high",
    "completion",
    "completion_low",
    "completion_high",
    "plateau",
    "level",
    "share",
    "startup_share",
    "noise",
    "correlation",
    "readings",
)


def table(groups: Sequence[Group]) -> pd.DataFrame:
    """One row per stage, numbered from 1 within its group; a group without stages has one row, stage 0."""
    rows = [row for group in groups for row in _rows(group)]
    return pd.DataFrame(rows, columns=pd.Index(COLUMNS))


def _rows(group: Group) -> list[dict[str, object]]:
    common = {
        "group": group.name,
        "startup_share": group.startup,
        "noise": group.noise,
        "correlation": group.correlation,
        "readings": group.readings,
    }
    if not group.stages:
        return [{**common, "stage": 0, "level": group.level}]
    return [{**common, "stage": n, **_columns(stage)} for n, stage in enumerate(group.stages, 1)]


def _columns(stage: Stage) -> dict[str, object]:
    low, high = stage.completion_interval or (None, None)
    return {
        "onset": stage.onset,
        "onset_low": stage.onset_interval[0],
        "onset_high": stage.onset_interval[1],
        "completion": stage.completion,
        "completion_low": low,
        "completion_high": high,
        "plateau": stage.plateau,
        "level": stage.level,
        "share": stage.share,
    }


def summary(groups: Sequence[Group], order: Order) -> str:
    """One line per stage, one for each group without any, and the order where several groups fall."""
    lines = [line for group in groups for line in _lines(group)]
    return "\n".join([*lines, f"order: {order}"] if len(order.names) > 1 else lines)


def _lines(group: Group) -> list[str]:
    if group.level is None:
        return [f"{group.name}: {group.readings} readings are too few, at least {FEWEST} are needed"]
    if group.stages:
        return [_line(stage) for stage in group.stages]
    if group.startup >= 0.5:
        return [f"{group.name}: a smooth decay from the start, now {group.level:.4g}; no stage"]
    return [f"{group.name}: on its plateau of {group.level:.4g}; no stage"]


def _line(stage: Stage) -> str:
    low, high = stage.onset_interval
    end = "still falling" if stage.completion is None else f"fallen at step {stage.completion:.4g}"
    return (
        f"{stage.name}: falls from {stage.plateau:.4g} at step {stage.onset:.4g} ({low:.4g} to {high:.4g}), "
        f"{end}, to {stage.level:.4g}: {stage.share:.0%} of its fall"
    )
