"""Pictures of stages."""

from pathlib import Path
from typing import Any

import pandas as pd

from attangent._errors import AttangentError
from attangent.stages._pictures import write_picture
from attangent.stages.detector.detector import Findings, StageDetector
from attangent.stages.detector.group import Group


def plot_stages(detector: StageDetector, path: str | Path) -> None:
    """The loss of each group over the steps, with what the detector finds in it."""
    plot_findings(detector.findings, detector.readings, path)


def plot_findings(findings: Findings, readings: pd.DataFrame, path: str | Path) -> None:
    """One panel per group: readings, fitted course, each stage from onset to completion, intervals shaded."""
    if readings.empty:
        raise AttangentError("there are no readings yet: update the detector before plotting")
    groups = findings.groups

    def draw(panels: list[Any]) -> None:
        for number, (panel, group) in enumerate(zip(panels, groups, strict=True)):
            _draw(panel, group, readings.query("group == @group.name"), f"C{number % 10}")

    write_picture(path, len(groups), draw)


def _draw(panel: Any, group: Group, readings: pd.DataFrame, colour: str) -> None:
    panel.plot(readings["step"], readings["loss"], color=colour, alpha=0.4, lw=1)
    panel.plot(group.steps, group.mean, color=colour, lw=1.5)
    for stage in group.stages:
        panel.axvspan(*stage.onset_interval, color="black", alpha=0.15, lw=0)
        panel.axvline(stage.onset, color="black", ls="--", lw=0.8)
        if stage.completion is not None and stage.completion_interval is not None:
            panel.axvspan(*stage.completion_interval, color="black", alpha=0.08, lw=0)
            panel.axvline(stage.completion, color="black", ls="-", lw=0.8)
    title = f"{group.name}: {len(group.stages)} stage{'s' * (len(group.stages) != 1)}"
    panel.set(title=title, xlabel="step", ylabel="loss")
