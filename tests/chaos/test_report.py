"""Counts and bars of a chaos run."""

import json

import pytest
from chaos.fuzz import Ended
from chaos.outcomes import ANSWERED, FOREIGN, HANG, NAN, REFUSED
from chaos.report import Report


def report(*kinds):
    made = Report(seed=3)
    for number, kind in enumerate(kinds):
        made.count("files", Ended(number, "f", ["x=None"], kind, "why"))
    return made


@pytest.mark.parametrize("kind", [HANG, NAN])
def test_one_hang_or_nan_is_too_many(kind):
    assert report(*[ANSWERED, REFUSED] * 5000).passed
    assert not report(*[ANSWERED, REFUSED] * 5000, kind).passed


def test_exceptions_of_others_may_be_one_in_a_thousand():
    assert report(*[REFUSED] * 999, FOREIGN).passed
    assert not report(*[REFUSED] * 998, FOREIGN, FOREIGN).passed


def test_something_that_went_wrong_fails_the_run(tmp_path):
    made = report(ANSWERED, FOREIGN)
    made.add("kills", True, job="audit", landed=10)
    made.add("disk", False, job="tune", said="Traceback")
    assert not made.passed
    made.write(tmp_path)
    content = json.loads((tmp_path / "chaos.json").read_text())
    assert content["seed"] == 3
    assert content["counts"]["files"] == {ANSWERED: 1, FOREIGN: 1}
    text = (tmp_path / "chaos.md").read_text()
    assert "| files | 2 | 1 | 0 | 1 foreign | 0 | 0 | MISSED |" in text
    assert "| kills | 1 |  |  | 0 | 0 | 0 | met |" in text
    assert "| disk | 1 |  |  | job tune, said Traceback | 0 | 0 | MISSED |" in text
    assert "case 1, f ['x=None']: foreign why" in text
