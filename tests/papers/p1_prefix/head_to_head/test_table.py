"""Means, spreads and paired differences."""

import math

import pytest

from attangent.papers.p1_prefix.head_to_head.table import paired
from tests.papers.p1_prefix.head_to_head.cases import comparison, run, write_model_and_rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model_and_rows(tmp_path_factory.mktemp("bert"))


def test_paired_gaps(folder):
    given = comparison(folder)
    runs = [run("ntk", 0.01, 0, 0.8, 0.5), run("ntk", 0.03, 0, 0.6, 0.9), run("ntk", 0.01, 1, 0.1, 0.7)]
    rate = given.entrants[0].rates[0]
    runs += [run("head", rate, 0, 0.5, 0.4), run("head", rate, 1, 0.5, 0.5)]
    found = paired(given, runs, "ntk", "head", ["cats"])
    assert found["gap"] == pytest.approx(0.15)
    assert found["error"] == pytest.approx(0.05)
    assert math.isnan(paired(given, runs, "ntk", "head", ["dogs"])["gap"])
