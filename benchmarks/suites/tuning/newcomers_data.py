"""Customer messages from templates: 200 rows in four classes to train on, unseen templates to score on."""

import csv
import random
import string
import tomllib
from pathlib import Path

TEMPLATES = Path(__file__).with_name("newcomers.toml")
UNSEEN = 3
"""How many templates of each class occur in evaluation only."""


def tasks(group: str) -> tuple[str, ...]:
    """The names of the tasks for `building` defaults, or for `reporting`."""
    return tuple(_templates()[group])


def write_task(name: str, folder: Path, seed: int, train: int = 200, test: int = 200) -> tuple[Path, Path]:
    """Write `train` and `test` messages of a task as .csv files with the columns text and label."""
    content = _templates()
    classes = {**content["building"], **content["reporting"]}[name]
    slots, folder = content["slots"], Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(f"{name}/{seed}")
    seen = {label: texts[:-UNSEEN] for label, texts in classes.items()}
    unseen = {label: texts[-UNSEEN:] for label, texts in classes.items()}
    files = folder / f"{name}-{seed}-train.csv", folder / f"{name}-{seed}-eval.csv"
    for path, templates, count in zip(files, (seen, unseen), (train, test), strict=True):
        _write(path, _messages(templates, slots, count, draw))
    return files


def _templates() -> dict[str, dict[str, dict[str, list[str]]]]:
    return tomllib.loads(TEMPLATES.read_text())


def _messages(
    templates: dict[str, list[str]], slots: dict[str, list[str]], count: int, draw: random.Random
) -> list[tuple[str, str]]:
    """As many messages of each class, all different, in random order."""
    labels, found = list(templates), dict[str, str]()
    while len(found) < count:
        label = labels[len(found) % len(labels)]
        found.setdefault(_filled(draw.choice(templates[label]), slots, draw), label)
    rows = list(found.items())
    draw.shuffle(rows)
    return rows


def _filled(template: str, slots: dict[str, list[str]], draw: random.Random) -> str:
    body = template if draw.random() < 0.5 else template + "."
    text = draw.choice(slots["opener"]) + body + draw.choice(slots["closer"])
    while names := [name for _, name, _, _ in string.Formatter().parse(text) if name]:
        text = text.format(**{name: draw.choice(slots[name]) for name in names})
    return text


def _write(path: Path, rows: list[tuple[str, str]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text", "label"))
        writer.writerows(rows)
