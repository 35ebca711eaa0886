"""Pictures of spectra."""

from pathlib import Path
from typing import Any

import pandas as pd

from attangent._errors import AttangentError
from attangent.stages._pictures import write_picture


def plot_spectrum(frame: pd.DataFrame, path: str | Path) -> None:
    """Singular values as `spectrum` returns them: a panel a target, a curve a layer (and head)."""
    targets = list(dict.fromkeys(frame["target"]))
    if not targets:
        raise AttangentError("the frame has no singular values: take it from spectrum(model)")

    def draw(panels: list[Any]) -> None:
        for panel, target in zip(panels, targets, strict=True):
            for _, values in frame.query("target == @target").groupby(["layer", "head"], dropna=False):
                colour = f"C{int(values['layer'].iloc[0]) % 10}"
                panel.semilogy(values["index"], values["value"], color=colour, lw=1)
            panel.set(title=target, xlabel="index", ylabel="singular value")

    write_picture(path, len(targets), draw)
