"""The newcomers' messages: as many of each class, templates of evaluation unseen, the same for a seed."""

import csv

import pytest

from benchmarks.suites.tuning.newcomers import table
from benchmarks.suites.tuning.newcomers_data import tasks, write_task


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("task", [*tasks("building"), *tasks("reporting")])
def test_messages_of_four_classes(tmp_path, task):
    train, held = (rows(path) for path in write_task(task, tmp_path, 0))
    for part in (train, held):
        labels = [row["label"] for row in part]
        assert len(part) == len({row["text"] for row in part}) == 200
        assert sorted(labels.count(label) for label in set(labels)) == [50] * 4
        assert not any("{" in row["text"] for row in part)
    assert not {row["text"] for row in train} & {row["text"] for row in held}


def test_a_seed_decides_the_messages(tmp_path):
    drawn = [write_task("bank", tmp_path / name, seed)[0] for name, seed in (("a", 0), ("b", 0), ("c", 1))]
    first, again, other = (path.read_text() for path in drawn)
    assert first == again != other


def test_tasks_to_build_on_are_not_reported():
    assert not set(tasks("building")) & set(tasks("reporting"))
    assert len(tasks("reporting")) == 5


def test_the_table_has_means_over_tasks():
    runs = {
        ("a", "ntk"): [{"eval_accuracy": 0.5, "seconds": 1.0}],
        ("b", "ntk"): [{"eval_accuracy": 0.7, "seconds": 3.0}],
    }
    assert table(runs, ("ntk",)).splitlines()[-2:] == ["| mean | 0.600 |", "| seconds | 2.0 |"]
