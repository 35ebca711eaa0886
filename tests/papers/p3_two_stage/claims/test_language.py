"""The tests of `papers/p3/language.py`."""

import pytest

from attangent.audit import Verdict
from tests.papers.harness import check, measured

TINY = {"width": 16, "layers": 1, "batch": 32, "epochs": 1, "most_examples": 60}


def test_syntax_comes_before_semantics():
    finding = check("P3/figure-5")
    assert finding.verdict is Verdict.MEASURED  # the facts are made up
    assert measured(finding, "semantics when syntax is reached") < 0.2
    assert measured(finding, "semantics at the end") > 0.95
    assert measured(finding, "held-out paraphrases") > 0.9
    numbers = finding.numbers
    assert numbers["epoch of the onset of syntax"] < numbers["epoch of the onset of semantics"]
    assert numbers["epoch at which syntax is reached"] < numbers["epoch at which semantics reaches 0.3"]
    assert numbers["epoch of the onset of semantics"] < numbers["epoch of the completion of semantics"]


@pytest.mark.parametrize("id", ["P3/figure-5", "P3/figure-7"])
def test_a_model_that_has_not_learned_is_found_out(id):
    finding = check(id, **TINY)
    assert finding.verdict is Verdict.NOT_REPRODUCED
    assert measured(finding, "the detector finds") == 0


def test_answers_that_are_seldom_wrong_are_found_out():
    """With one answer to a type, answers are right as soon as the type is."""
    changes = {"answers": 1, "relations": 5, "subjects": 40, "epochs": 8}
    finding = check("P3/figure-5", **changes)
    assert measured(finding, "semantics when syntax is reached") > 0.5
    assert finding.verdict is Verdict.NOT_REPRODUCED
