"""The tests of `language.py`."""

import gzip
import json
import os

import pytest

from attangent.audit import Verdict
from attangent.papers.p3_two_stage.claims import language
from tests.papers.harness import check, measured


def test_the_file_of_hotpotqa_is_taken_where_it_is(tmp_path, monkeypatch):
    rows = [{"question": f"Who is number {i} of all ?", "answer": f"person {i % 3}"} for i in range(40)]
    path = tmp_path / language.HOTPOTQA[0]
    path.parent.mkdir()
    path.write_bytes(gzip.compress(json.dumps(rows).encode()))
    for folder, expected in ((tmp_path, 1.0), (tmp_path / "none", 0.0)):
        monkeypatch.setenv("ATTANGENT_DATA", str(folder))
        finding = check("P3/figure-7", source="HotpotQA", **TINY)
        assert finding.hypotheses[0].measured == expected
        assert ("ATTANGENT_DATA" in finding.remark) == (expected == 0)


def test_counterfact_is_taken_where_it_is(monkeypatch):
    folder = os.environ.get("ATTANGENT_DATA")
    if not folder or not language._files("CounterFact"):
        pytest.skip("set ATTANGENT_DATA to a folder with the three files of counterfact/")
    finding = check("P3/figure-5", source="CounterFact", facts=100, **TINY)
    assert finding.hypotheses[0].met
    assert finding.remark == "Trained on 178 examples of CounterFact."
    monkeypatch.delenv("ATTANGENT_DATA")
    assert not check("P3/figure-5", source="CounterFact", facts=100, **TINY).hypotheses[0].met


TINY = {"width": 16, "layers": 1, "batch": 32, "epochs": 1, "most_examples": 60}


def test_syntax_comes_before_semantics():
    finding = check("P3/figure-5", subjects=100, epochs=16)
    assert finding.verdict is Verdict.SMALLER
    assert all(line.kept for line in finding.conclusions if line.decides)
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
    assert any(line.decides and not line.kept for line in finding.conclusions)
    assert measured(finding, "the detector finds") == 0


def test_answers_that_are_seldom_wrong_are_found_out():
    """With one answer to a type, answers are right as soon as the type is."""
    changes = {"answers": 1, "relations": 5, "subjects": 40, "epochs": 8}
    finding = check("P3/figure-5", **changes)
    assert measured(finding, "semantics when syntax is reached") > 0.5
    assert any(line.decides and not line.kept for line in finding.conclusions)
