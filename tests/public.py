"""Every public name and every option: `python -m tests.public --write` writes them to public_names.txt.

Public is what the `__init__` of a room or of a paper lists in `__all__`, and every command with its options.
A release writes the list; from then on tests/test_public_names.py fails if one of them vanishes.
"""

import importlib
import pkgutil
import sys
from pathlib import Path

import typer

import attangent
from attangent import papers
from attangent.cli.commands import app

LIST = Path(__file__).with_name("public_names.txt")


def public_names() -> list[str]:
    """attangent.NAME, attangent.ROOM.NAME, attangent.papers.PAPER.NAME and `attangent COMMAND --option`."""
    rooms = [f"attangent.{room}" for room in dir(attangent) if room not in attangent.__all__]
    rooms += [f"attangent.papers.{module.name}" for module in pkgutil.iter_modules(papers.__path__)]
    names = [
        f"{room}.{name}"
        for room in ["attangent", *rooms]
        for name in getattr(importlib.import_module(room), "__all__", [])
    ]
    return sorted([*names, *_options("attangent", typer.main.get_command(app))])


def _options(words: str, command: object) -> list[str]:
    below = getattr(command, "commands", None)
    if below is not None:
        return [option for name, inner in below.items() for option in _options(f"{words} {name}", inner)]
    options = [flag for option in getattr(command, "params", []) for flag in option.opts if flag[0] == "-"]
    return [words, *(f"{words} {flag}" for flag in options)]


if __name__ == "__main__":
    listed = public_names()
    if "--write" in sys.argv:
        LIST.write_text("".join(f"{name}\n" for name in listed))
    else:
        print(*listed, sep="\n")
