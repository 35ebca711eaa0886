"""Figures of a run as files of their own, for pages that cannot hold them, with title, axes and legend."""

import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

from attangent._core.files import real_folder, write_whole
from attangent.audit.finding import Figure
from attangent.audit.report.figures import draw, legend
from attangent.audit.results import Result, Run

MOST_OF_A_CLAIM = 2
_LINE, _MARGIN = 17, 8
_STYLE = """<style>
svg { --axis: #5a606b; --grid: #e3dfd7; --series-0: #1f66b5; --series-1: #c4560a; --series-2: #0b8467;
  --series-3: #9a3a91; --series-4: #7d6a00; --series-5: #56606d; }
text { font: 10.5px sans-serif; }
.title { font-weight: bold; font-size: 12px; }
</style>"""


@dataclass(frozen=True)
class PictureFile:
    """A figure of a claim in a file of its own."""

    claim: str
    title: str
    path: Path


def write_pictures(run: Run, folder: Path) -> list[PictureFile]:
    """Write the first figures of each experiment of the papers to `folder` and give their places."""
    experiments = [result for result in run.results() if result.origin.kind == "experiment"]
    place = real_folder(folder)
    return [picture for result in experiments for picture in _written(result, place)]


def _written(result: Result, folder: Path) -> list[PictureFile]:
    found = []
    for number, figure in enumerate(result.deciding.finding.figures[:MOST_OF_A_CLAIM]):
        stem = f"{result.claim.replace('/', '--')}-{number + 1}"
        drawing = standalone(figure, stem)
        if drawing is not None:
            path = folder / f"{stem}.svg"
            write_whole(path, drawing.encode())
            found.append(PictureFile(result.claim, figure.title, path))
    return found


def standalone(figure: Figure, prefix: str) -> str | None:
    """The figure as an SVG file on white; None where no point can be drawn."""
    plot = draw([figure], prefix)
    if plot is None:
        return None
    width, height = (float(size) for size in _sizes(plot))
    below = _LINE * 2 + height + _LINE
    keys = [_key(key.label, key.colour, below + _LINE * (i + 1)) for i, key in enumerate(legend(figure))]
    total = below + _LINE * (len(keys) + 1)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-_MARGIN} 0 {width + 2 * _MARGIN:g} {total:g}">',
        _STYLE,
        f'<rect x="{-_MARGIN}" width="100%" height="100%" fill="#ffffff"/>',
        f'<text class="title" y="{_LINE - 3}">{escape(figure.title)}</text>',
        f'<text y="{2 * _LINE - 5}">{escape(figure.y_label)}</text>',
        plot.replace("<svg ", f'<svg y="{2 * _LINE}" width="{width:g}" height="{height:g}" ', 1),
        f'<text x="{width:g}" y="{below - 4:g}" text-anchor="end">{escape(figure.x_label)}</text>',
        *keys,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _sizes(plot: str) -> list[str]:
    found = re.match(r'<svg viewBox="0 0 ([\d.]+) ([\d.]+)"', plot)
    return list(found.groups()) if found else ["420", "220"]


def _key(label: str, colour: int, y: float) -> str:
    swatch = f'<rect y="{y - 7:g}" width="18" height="4" style="fill: var(--series-{colour})"/>'
    return f'{swatch}<text x="24" y="{y:g}">{escape(label)}</text>'
