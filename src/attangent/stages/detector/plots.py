"""Pictures of stages."""

from pathlib import Path
from typing import Any

import pandas as pd

from attangent._errors import AttangentError
from attangent.stages._pictures import write_picture
from attangent.stages.detector.detector import Stage, StageDetector


def plot_stages(detector: StageDetector, path: str | Path) -> None:
    """The loss of each group over the steps, with its onset (dashed) and completion (solid)."""
    readings = detector.readings
    if readings.empty:
        raise AttangentError("the detector has read nothing yet: update it before plotting")

    def draw(panels: list[Any]) -> None:
        for number, stage in enumerate(detector.stages):
            _draw_stage(panels[0], stage, readings.query("group == @stage.name"), f"C{number}")
        panels[0].set(xlabel="step", ylabel="loss")
        panels[0].legend(frameon=False)

    write_picture(path, 1, draw)


def _draw_stage(panel: Any, stage: Stage, readings: pd.DataFrame, colour: str) -> None:
    panel.plot(readings["step"], readings["loss"], color=colour, label=stage.name)
    for step, style in ((stage.onset, "--"), (stage.completion, "-")):
        if step is not None:
            panel.axvline(step, color=colour, ls=style, lw=0.8)
