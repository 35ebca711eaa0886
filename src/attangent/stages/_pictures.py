"""Writing a picture to a file by the ending of its name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attangent._errors import AttangentError
from attangent._files import writing

ENDINGS = (".png", ".svg", ".pdf")


def check_picture(path: str | Path) -> Path:
    """The path, where its ending is that of a picture."""
    if Path(path).suffix.lower() not in ENDINGS:
        raise AttangentError(
            f"the plot is to be written to {path}, expected a name ending in {', '.join(ENDINGS)}"
        )
    return Path(path)


def write_picture(path: str | Path, panels: int, draw: Callable[[list[Any]], None]) -> None:
    """Draw on `panels` axes, at most three beside each other, and write the figure, whole or not at all."""
    file = check_picture(path)
    from matplotlib.figure import Figure

    columns = min(panels, 3)
    rows = -(-panels // columns)
    figure = Figure(figsize=(4.5 * columns, 3.2 * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in axes[panels:]:
        unused.set_axis_off()
    draw(axes[:panels])
    with writing(file) as temporary:
        figure.savefig(temporary, dpi=120)
