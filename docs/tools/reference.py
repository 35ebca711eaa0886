"""Write one reference page per room from what its `__init__` lists: `python docs/tools/reference.py`."""

import importlib
import sys
from pathlib import Path

PAGES = Path(__file__).parents[1] / "reference"
ROOMS = {
    "compression": "../compress.md",
    "tuning": "../tuning.md",
    "adapters": "../adapters.md",
    "attention": "../attention.md",
    "attention.features": "../attention.md",
    "forecast": "../forecast.md",
    "kernels": "../kernels.md",
    "icl": "../icl.md",
    "stages": "../stages.md",
    "serving": "../serve.md",
    "data": "../data.md",
    "audit": "../audit.md",
    "papers.p1_prefix": "../papers.md",
    "papers.p2_softmax": "../diffusion.md",
    "papers.p3_two_stage": "../papers.md",
    "papers.p4_in_context": "../icl.md",
    "papers.p5_forecasting": "../papers.md",
}
"""Rooms and papers, each with the guide that shows how to use it."""


def page(room: str) -> str:
    """Return the Markdown page of a room: its docstring, then every public name."""
    module = importlib.import_module(f"attangent.{room}")
    summary = (module.__doc__ or "").strip().split("\n\n")[0]
    names = [name for name in module.__all__ if name != "BY_NAME"]
    blocks = [f"::: attangent.{room}.{name}" for name in sorted(names, key=lambda n: (n[0].isupper(), n))]
    guide = f"{summary}\n\nHow to use it: [guide]({ROOMS[room]})."
    return "\n\n".join([f"# attangent.{room}", guide, *blocks]) + "\n"


def file_of(room: str) -> Path:
    """Return the file of a room's page."""
    return PAGES / f"{room.replace('.', '-')}.md"


def main() -> None:
    """Write all pages, and nothing else, next to `index.md`."""
    for room in ROOMS:
        file_of(room).write_text(page(room))
    stale = {path.name for path in PAGES.glob("*.md")} - {file_of(room).name for room in ROOMS} - {"index.md"}
    sys.exit(f"pages without a room: {', '.join(sorted(stale))}" if stale else 0)


if __name__ == "__main__":
    main()
