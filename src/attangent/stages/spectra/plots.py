"""Pictures of spectra."""

from os import PathLike
from typing import TYPE_CHECKING

import pandas as pd

from attangent._core.errors import AttangentError
from attangent._core.plots import COLOURS, check_picture, finished, in_style, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@in_style
def plot_spectrum(frame: pd.DataFrame, path: str | PathLike[str] | None = None) -> "Figure":
    """Singular values as `spectrum` returns them: a panel per target, a curve per layer (and head)."""
    if path is not None:
        check_picture(path)
    targets = list(dict.fromkeys(frame["target"]))
    if not targets:
        raise AttangentError("the frame has no singular values: take it from spectrum(model)")
    figure, axes = panels(len(targets))
    for panel, target in zip(axes, targets, strict=True):
        for _, values in frame.query("target == @target").groupby(["layer", "head"], dropna=False):
            colour = COLOURS[int(values["layer"].iloc[0]) % len(COLOURS)]
            panel.semilogy(values["index"], values["value"], color=colour, lw=1)
        panel.set(title=target, xlabel="index", ylabel="singular value")
    return finished(figure, path)
