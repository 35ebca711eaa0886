"""The code blocks of a page, and the folder in which a reader would run them."""

import gzip
import json
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
GENERATED = {"audit-full.md", "audit-results.md", "benchmarks.md", "results.md", "index.md"}
"""Pages that a script writes, and the landing page, which includes README."""
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name not in GENERATED),
]
LANGUAGES = {"python", "sh", "toml", "text"}
TEXT = (
    "The keeper of the tower is Anna Moor. The mayor of the town is Otto Lind. The tower was built in 1791. "
    "The lamp of the tower is green. The key of the tower hangs in the kitchen. Guests pay 12 euros a night. "
)
QUESTIONS = (
    "Who is the mayor? How many days of leave are there? Where is my parcel? Which colour has the lamp?"
)
_BLOCK = re.compile(
    r"^```(\w*)\n((?:(?!```).*\n)*)```$|(?:(?<=\n\n)|(?<=-->\n))((?: {4}.*\S\n)+)", re.MULTILINE
)  # between fences, or indented after an empty line or a mark


class Snippet(NamedTuple):
    """A block of code: its page, its language and its text."""

    page: Path
    language: str
    text: str


def snippets(page: Path) -> list[Snippet]:
    """Return the blocks of a page in order; one command each for those that are typed into a shell."""
    blocks = []
    for language, fenced, indented in _BLOCK.findall(_without_outputs(page)):
        if fenced and language != "sh":
            blocks.append(Snippet(page, language, fenced))
        else:
            blocks += [Snippet(page, "sh", command) for command in commands(fenced or indented)]
    return blocks


def _without_outputs(page: Path) -> str:
    """Return a page without included files, and a tutorial without its outputs."""
    text = re.sub(r"^--8<-- .*$", "", page.read_text(), flags=re.MULTILINE)
    if page.parent.name != "tutorials":
        return text
    lines = [line for line in text.splitlines() if re.match(r"    (attangent|pip) ", line)]
    return "\n\n" + "\n".join([*lines, ""])


def commands(block: str) -> list[str]:
    """Return the commands of a block, each on one line and without its comment."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^    ", "", block, flags=re.MULTILINE))
    lines = re.split(r"\n(?=[\w$\"'/.]+[ =])", joined.strip())
    return [re.sub(r"\s{2,}#.*$|\s# .*$", "", line) for line in lines]


def write_world(folder: Path) -> None:
    """Write the files that the pages speak of, in small."""
    for name in ("guide.md", "handbook.md", "handbook.txt", "hostel.md"):
        (folder / name).write_text(TEXT)
    texts = [(f"where is parcel {n}" if n % 2 else f"the lamp {n} is broken") for n in range(20)]
    labels = ["parcel" if n % 2 else "repair" for n in range(20)]
    _write_rows(folder / "tickets.csv", "text,label", zip(texts, labels, strict=True))
    _write_rows(folder / "messages.csv", "text,intent", zip(texts, labels, strict=True))
    _write_rows(folder / "new.csv", "id,text", enumerate(texts[:4]))
    days = [f"2024-{1 + n // 28:02d}-{1 + n % 28:02d}" for n in range(84)]
    dense = [f"2024-01-{1 + n:02d}" if n < 31 else f"2024-02-{n - 30:02d}" for n in range(60)]
    _write_rows(folder / "sales.csv", "day,units", ((day, 10 + n % 7) for n, day in enumerate(dense)))
    shops = [(region, shop) for region in ("north", "south") for shop in ("1", "2")]
    rows = [(r, r[0] + s, day, 10 + int(s) + n % 7) for r, s in shops for n, day in enumerate(dense)]
    _write_rows(folder / "many.csv", "region,shop,day,sold", rows)
    _write_rows(folder / "future.csv", "day,price", ((day, 1) for day in days))
    with gzip.open(folder / "employment.csv.gz", "wt") as file:
        months = [f"{2010 + n // 12}-{1 + n % 12:02d}-01" for n in range(60)]
        file.write("unique_id,ds,y\n")
        file.writelines(f"{u},{month},{100 + n % 12}\n" for u in "ab" for n, month in enumerate(months))
    _write_losses(folder)


def _write_losses(folder: Path) -> None:
    losses = [(step, 1 + 4 / (1 + 2 ** ((step - 150) / 10)), 2.0 - step / 1000) for step in range(0, 400, 2)]
    _write_rows(folder / "metrics.csv", "step,easy,hard", losses)
    history = [{"step": step, "eval_loss": loss} for step, loss, _ in losses]
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": history}))


def _write_rows(path: Path, header: str, rows) -> None:
    lines = [",".join(map(str, row)) for row in rows]
    path.write_text("\n".join([header, *lines]) + "\n")
