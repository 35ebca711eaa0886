"""Comparisons: chosen rates, resumption, means, spreads and paired differences."""

import json
import math
from dataclasses import replace

import pytest

from attangent import AttangentError
from attangent._core.files import only_writer
from benchmarks.suites.tuning import comparison as module
from benchmarks.suites.tuning.comparison import (
    chosen_rate,
    chosen_runs,
    compare,
    paired,
    read_runs,
    summary,
    table_text,
)
from tests.papers.p1_prefix.head_to_head.cases import comparison, run, trial, write_model_and_rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model_and_rows(tmp_path_factory.mktemp("bert"))


def test_a_comparison_runs_once_and_goes_on(folder, tmp_path, monkeypatch):
    told = []
    given = comparison(folder)
    runs = compare(given, tmp_path, told.append)
    assert len(runs) == len(told) == 3 + 2  # two rates on the first seed, one afterwards
    assert runs == read_runs(tmp_path / "runs.jsonl")
    rows = summary(given, runs)
    assert [(row["entrant"], row["seeds"]) for row in rows] == [("head", 2), ("ntk", 2)]
    assert "| cats | ntk |" in table_text(given, runs)
    lines = (tmp_path / "runs.jsonl").read_text().splitlines()
    (tmp_path / "runs.jsonl").write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:20] + "\n")
    again = []
    assert len(compare(given, tmp_path, again.append)) == 5
    assert [(one["entrant"], one["seed"]) for one in again] == [("ntk", 1)]
    assert again[0]["test"] == runs[-1]["test"]
    monkeypatch.setattr(module, "prepare_trial", None)
    assert len(compare(given, tmp_path)) == 5


def test_rates_are_chosen_on_validation_not_on_test(folder):
    given = comparison(folder)
    entrant = given.entrants[1]
    runs = [run("ntk", 0.01, 0, 0.8, 0.5), run("ntk", 0.03, 0, 0.6, 0.9)]
    assert chosen_rate(entrant, given.trials[0], runs) == 0.01
    assert chosen_rate(entrant, given.trials[0], runs[:1]) is None
    later = [run("ntk", 0.01, 1, 0.1, 0.7), run("ntk", 0.03, 1, 0.9, 0.9)]
    assert [one["test"]["accuracy"] for one in chosen_runs(given, runs + later)] == [0.5, 0.7]
    (row,) = summary(given, runs + later)
    assert row["accuracy"] == pytest.approx(0.6)
    assert row["sd"] == pytest.approx(math.sqrt(0.02))


def test_seeds_may_start_elsewhere(folder, tmp_path):
    given = replace(comparison(folder), first_seed=5)
    entrant = given.entrants[1]
    early = [run("ntk", 0.01, 0, 0.1, 0.1), run("ntk", 0.03, 0, 0.9, 0.1)]
    first = [run("ntk", 0.01, 5, 0.8, 0.5), run("ntk", 0.03, 5, 0.6, 0.9)]
    assert chosen_rate(entrant, given.trials[0], early + first, 5) == 0.01
    assert chosen_runs(given, early + first) == first[:1]
    assert [one["seed"] for one in compare(given, tmp_path)] == [5, 5, 5, 6, 6]
    with pytest.raises(AttangentError, match="first_seed is -1"):
        replace(given, first_seed=-1)


def test_runs_are_plain_json(folder, tmp_path):
    runs = compare(comparison(folder, seeds=1, trials=(trial(folder, train=10),)), tmp_path)
    assert json.loads(json.dumps(runs)) == runs


def test_a_second_comparison_in_one_folder_is_refused(folder, tmp_path):
    with only_writer(tmp_path), pytest.raises(AttangentError, match="another compare is writing to"):
        compare(comparison(folder), tmp_path)


def test_paired_gaps(folder):
    given = comparison(folder)
    runs = [run("ntk", 0.01, 0, 0.8, 0.5), run("ntk", 0.03, 0, 0.6, 0.9), run("ntk", 0.01, 1, 0.1, 0.7)]
    rate = given.entrants[0].rates[0]
    runs += [run("head", rate, 0, 0.5, 0.4), run("head", rate, 1, 0.5, 0.5)]
    found = paired(given, runs, "ntk", "head", ["cats"])
    assert found["gap"] == pytest.approx(0.15)
    assert found["error"] == pytest.approx(0.05)
    assert math.isnan(paired(given, runs, "ntk", "head", ["dogs"])["gap"])
