"""Every public name and every flag: `python -m tests.public --write` writes them to public_names.txt.

A release writes the list; from then on tests/test_public_names.py fails where one of them vanishes.
"""

import importlib
import sys
from pathlib import Path

import typer

import attangent
from attangent.cli.commands import app

LIST = Path(__file__).with_name("public_names.txt")


def public_names() -> list[str]:
    """attangent.NAME, attangent.ROOM.NAME, and `attangent COMMAND --flag`."""
    found = [f"attangent.{name}" for name in attangent.__all__]
    for room in (name for name in dir(attangent) if name not in attangent.__all__):
        module = importlib.import_module(f"attangent.{room}")
        found += [f"attangent.{room}.{name}" for name in getattr(module, "__all__", [])]
    return sorted([*found, *_flags("attangent", typer.main.get_command(app))])


def _flags(words: str, command: object) -> list[str]:
    below = getattr(command, "commands", None)
    if below is not None:
        return [flag for name, inner in below.items() for flag in _flags(f"{words} {name}", inner)]
    options = [flag for option in getattr(command, "params", []) for flag in option.opts if flag[0] == "-"]
    return [words, *(f"{words} {flag}" for flag in options)]


if __name__ == "__main__":
    listed = public_names()
    if "--write" in sys.argv:
        LIST.write_text("".join(f"{name}\n" for name in listed))
    else:
        print(*listed, sep="\n")
