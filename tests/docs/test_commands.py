"""The commands that pages show exist, and so do their options."""

import re
from pathlib import Path

import pytest
import typer

from attangent.cli.commands import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = typer.main.get_command(app).commands


def shown_commands(page: Path) -> list[str]:
    """Lines of code that begin with attangent, and the like in `single quotes of code`."""
    text = page.read_text()
    lines = re.findall(r"^    (?:\w+=\S+ )?attangent (.+)$", text, re.MULTILINE)
    inline = re.findall(r"`attangent ([a-z][^`]*)`", text)
    return [re.sub(r"\s+#.*$", "", line.replace("\n", " ")) for line in (*lines, *inline)]


def options_of(command: str, rest: str) -> set[str]:
    """The options of a command, or of the one below it that is named next."""
    found = COMMANDS[command]
    below = getattr(found, "commands", {})
    word = rest.split()[0] if rest.split() else ""
    options = {option for parameter in found.params for option in parameter.opts + parameter.secondary_opts}
    if word in below:
        options |= {option for parameter in below[word].params for option in parameter.opts}
    return options | {"--help"}


@pytest.mark.parametrize(
    "page", [p for p in PAGES if shown_commands(p)], ids=lambda p: str(p.relative_to(ROOT))
)
def test_commands_and_options_exist(page):
    wrong = []
    for line in shown_commands(page):
        command, _, rest = line.partition(" ")
        if command not in COMMANDS:
            wrong.append(line)
            continue
        given = set(re.findall(r"(?<!\S)(--[a-z][a-z-]*)", rest))
        wrong += [f"{line}: no {option}" for option in sorted(given - options_of(command, rest))]
    assert not wrong
