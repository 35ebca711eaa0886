"""Pictures of stages."""

from os import PathLike
from typing import TYPE_CHECKING, Any

import pandas as pd

from attangent._core.errors import AttangentError
from attangent._core.plots import COLOURS, PAST, check_picture, finished, in_style, panels
from attangent.stages.detector.detector import Findings, StageDetector
from attangent.stages.detector.group import Group

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_stages(detector: StageDetector, path: str | PathLike[str] | None = None) -> "Figure":
    """The loss of each group over the steps, with what the detector finds in it."""
    return plot_findings(detector.findings, detector.readings, path)


@in_style
def plot_findings(
    findings: Findings, readings: pd.DataFrame | None = None, path: str | PathLike[str] | None = None
) -> "Figure":
    """One panel per group: readings, fitted course, each stage from onset to completion, intervals shaded."""
    if path is not None:
        check_picture(path)
    if (readings is not None and readings.empty) or not findings.groups:
        raise AttangentError("there are no readings yet: update the detector before plotting")
    figure, axes = panels(len(findings.groups))
    for number, (panel, group) in enumerate(zip(axes, findings.groups, strict=True)):
        own = None if readings is None else readings.query("group == @group.name")
        _draw(panel, group, own, COLOURS[number % len(COLOURS)])
    return finished(figure, path)


def _draw(panel: Any, group: Group, readings: pd.DataFrame | None, colour: str) -> None:
    if readings is not None:
        panel.plot(readings["step"], readings["loss"], color=colour, alpha=0.4, lw=1)
    panel.plot(group.steps, group.mean, color=colour)
    for stage in group.stages:
        panel.axvspan(*stage.onset_interval, color=PAST, alpha=0.15, lw=0)
        panel.axvline(stage.onset, color=PAST, ls="--", lw=0.8)
        if stage.completion is not None and stage.completion_interval is not None:
            panel.axvspan(*stage.completion_interval, color=PAST, alpha=0.08, lw=0)
            panel.axvline(stage.completion, color=PAST, ls="-", lw=0.8)
    title = f"{group.name}: {len(group.stages)} stage{'s' * (len(group.stages) != 1)}"
    panel.set(title=title, xlabel="step", ylabel="loss")
