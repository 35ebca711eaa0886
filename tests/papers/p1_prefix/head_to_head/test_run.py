"""Splits of a data set."""

import pytest

from attangent import AttangentError
from attangent.papers.p1_prefix.head_to_head.run import split_task
from tests.papers.p1_prefix.head_to_head.cases import trial, write_model_and_rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model_and_rows(tmp_path_factory.mktemp("bert"))


def test_splits_are_disjoint_and_differ_by_seed(folder):
    parts = split_task(trial(folder), 0)
    assert [len(part) for part in parts] == [20, 8, 12]
    texts = [{example.features for example in part.examples} for part in parts]
    assert not texts[0] & texts[1] & texts[2]
    assert split_task(trial(folder), 0)[0] == parts[0]
    assert split_task(trial(folder), 1)[0] != parts[0]


def test_a_test_file_of_its_own(folder):
    parts = split_task(trial(folder, train=30, eval_files=(folder / "held.jsonl",)), 0)
    assert [len(part) for part in parts] == [30, 8, 12]


def test_asking_for_too_much_is_refused(folder):
    with pytest.raises(AttangentError, match="has 40 examples, 41 were requested"):
        split_task(trial(folder, test=13), 0)
