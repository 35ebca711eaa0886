"""Comparisons from TOML files, and what is refused."""

import pytest

from attangent import AttangentError
from attangent.papers.p1_prefix.head_to_head.settings import comparison_of, read_comparison
from tests.papers.p1_prefix.head_to_head.cases import write_model_and_rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model_and_rows(tmp_path_factory.mktemp("bert"))


def test_toml(folder):
    (folder / "c.toml").write_text(
        """
        model = "."
        seeds = 3
        first_seed = 7
        top = 1
        [training]
        epochs = 2
        [entrants.lora]
        name = "lora"
        rank = 4
        rates = [0.001, 0.01]
        [entrants.published]
        name = "ntk"
        ntk = { features = "elu", units = "authors" }
        [tasks.cats]
        files = ["rows.jsonl"]
        train = 20
        validation = 8
        test = 12
        """
    )
    found = read_comparison(folder / "c.toml")
    assert (found.seeds, found.first_seed, found.top, found.training.epochs) == (3, 7, 1, 2)
    assert found.entrants[0].rates == (0.001, 0.01)
    assert found.entrants[1].rates == (0.001,)
    assert found.trials[0].files == (folder / "rows.jsonl",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"modl": "x"}, "unknown settings modl"),
        ({"model": None}, "names no model"),
        ({"entrants": {}}, "the entrants are"),
        ({"tasks": {"t": {"files": ["rows.jsonl"]}}}, "task t lacks test, train, validation"),
        ({"tasks": {"t": {"files": ["no.jsonl"], "train": 1, "validation": 1, "test": 1}}}, "there is no"),
        ({"training": {"epoch": 1}}, "unknown settings epoch"),
        ({"entrants": {"a": {"name": "lora", "top": 1}}, "top": 1}, "for the comparison and for an entrant"),
        ({"entrants": {"a": {"name": "lora", "rates": [0]}}}, "expected numbers above 0"),
    ],
)
def test_settings_that_are_refused(folder, change, message):
    task = {"files": ["rows.jsonl"], "train": 20, "validation": 8, "test": 12}
    content = {"model": ".", "entrants": {"a": {"name": "head"}}, "tasks": {"t": task}}
    with pytest.raises(AttangentError, match=message):
        comparison_of({**content, **change}, folder)


def test_files_that_are_no_toml(folder, tmp_path):
    (tmp_path / "x.toml").write_text("= 3")
    with pytest.raises(AttangentError, match="is not TOML"):
        read_comparison(tmp_path / "x.toml")
    with pytest.raises(AttangentError, match="there is no file"):
        read_comparison(tmp_path / "y.toml")
