"""The tutorials run in small, and the notebooks and pages that are kept are those of today's sources."""

import json
import re
from pathlib import Path

import pytest
import torch

from tests.adapters.tiny import save_bert
from tests.docs.toys import save_chat_model

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "tutorials"
SOURCES = sorted(FOLDER.glob("*.py"))
NOT_RUN: set[str] = set()
"""Written without outputs so far; `python docs/tools/notebooks.py NAME` runs one at real size."""


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, str]:
    """Toy models in the place of SmolLM2 and MiniLM."""
    folder = tmp_path_factory.mktemp("models")
    words = re.findall(r"\w+|[^\w\s]", (FOLDER / "data" / "handbook.txt").read_text())
    return {
        "TUTORIAL_SMALL": "1",
        "TUTORIAL_CHAT_MODEL": str(save_chat_model(folder / "chat", words)),
        "TUTORIAL_ENCODER": str(save_bert(folder / "encoder")),
    }


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_a_tutorial_runs_in_small(source, models, tmp_path, monkeypatch, capsys):
    from matplotlib import pyplot

    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(FOLDER / "data")
    for name, value in models.items():
        monkeypatch.setenv(name, value)
    torch.manual_seed(0)
    names: dict = {"__name__": "tutorial"}
    try:
        exec(compile(source.read_text(), source.name, "exec"), names)
        assert pyplot.get_fignums()
    finally:
        pyplot.close("all")
    assert capsys.readouterr().out.strip()


def cells_of(source: Path) -> list[tuple[str, str]]:
    """The cells of a source as a notebook holds them: kind and text."""
    found = []
    for part in re.split(r"^# %%", source.read_text(), flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        if head.strip() == "[markdown]":
            lines = [line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines()]
            found.append(("markdown", "\n".join(lines)))
        else:
            found.append(("code", body.strip()))
    return found


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_the_notebook_is_that_of_the_source(source):
    notebook = json.loads(source.with_suffix(".ipynb").read_text())
    kept = [(cell["cell_type"], "".join(cell["source"]).strip()) for cell in notebook["cells"]]
    assert kept == cells_of(source), f"run python docs/tools/notebooks.py {source.stem}"
    assert not [out for cell in notebook["cells"] for out in cell.get("outputs", ()) if "ename" in out]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_the_page_shows_every_code_cell_and_a_figure(source):
    page = source.with_suffix(".md").read_text()
    missing = [text for kind, text in cells_of(source) if kind == "code" and text not in page]
    assert not missing
    assert ("Its outputs are not here yet" in page) == (source.stem in NOT_RUN)
    if source.stem in NOT_RUN:
        return
    pictures = re.findall(r"!\[Figure\]\(([^)]+)\)", page)
    assert pictures
    assert all((FOLDER / path).exists() for path in pictures)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_notebooks_tell_no_paths_of_the_machine_they_were_run_on(source):
    text = source.with_suffix(".ipynb").read_text() + source.with_suffix(".md").read_text()
    assert not re.findall(r"(?:/home|/work|/tmp|/root|/usr|site-packages)/?[\w/]*", text)
