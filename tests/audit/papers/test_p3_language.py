"""The claims of P3 on language and spectra: what they find, and the opposite."""

import gzip
import json
import os

import numpy as np
import pytest
import torch

from attangent.audit import Verdict, registry
from attangent.audit.papers.p3 import language_setting
from attangent.audit.papers.p3.spectra import Accuracies
from attangent.audit.papers.p3.spectra_answers import Answers

TINY = {"width": 16, "layers": 1, "batch": 32, "epochs": 1, "most_examples": 60}


def check(id, seed=0, **changes):
    claim = registry.get(id)
    return claim.check(claim.quick | changes, seed)


def measured(finding, part):
    return next(c.measured for c in finding.conclusions if part in c.name)


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


def test_large_values_hold_both_and_small_ones_neither():
    """On the model of the test before this one."""
    finding = check("P3/figure-6")
    assert finding.verdict is Verdict.VIOLATED
    assert measured(finding, "syntax in the smallest 80%, early") < 0.1
    assert measured(finding, "syntax in the smallest 80%, at the end") < 0.1
    assert measured(finding, "syntax in the largest 20%, at the end") > 0.9
    assert measured(finding, "semantics in the largest 20%") > 0.9
    assert check("P3/figure-6", small=1.0).verdict is Verdict.MEASURED
    kept = [series.y for series in finding.figures[0].series]
    assert len(finding.figures) == 4
    assert kept[0][-1] == kept[1][-1] == 1.0  # both keep all at rho = 1


def test_small_values_do_not_bring_the_syntax_back_first():
    finding = check("P3/figure-1")
    assert finding.verdict is Verdict.VIOLATED
    assert measured(finding, "answers that turn") > 10
    assert measured(finding, "smallest kept") < 0.4
    assert check("P3/figure-1", share=0.1).verdict is Verdict.MEASURED


def test_questions_of_two_hops_find_the_same():
    finding = check("P3/figure-7")
    assert finding.verdict is Verdict.MEASURED
    assert measured(finding, "semantics when syntax is reached") < 0.2
    spectra = check("P3/figure-8")
    assert spectra.verdict is Verdict.VIOLATED
    assert measured(spectra, "syntax in the smallest 80%, at the end") < 0.1
    assert check("P3/figure-8", small=1.0).verdict is Verdict.MEASURED


@pytest.mark.parametrize("id", ["P3/figure-5", "P3/figure-7"])
def test_a_model_that_has_not_learned_is_found_out(id):
    finding = check(id, **TINY)
    assert finding.verdict is Verdict.VIOLATED
    assert measured(finding, "the detector finds") == 0


def test_without_the_checkpoint_spectra_are_open():
    finding = check("P3/figure-6", **TINY)
    assert finding.verdict is Verdict.OPEN
    assert "train for more epochs" in finding.remark


def test_answers_that_are_seldom_wrong_are_found_out():
    """With two answers a type, half are right as soon as the type is."""
    changes = {"answers": 2, "relations": 5, "subjects": 40, "epochs": 8}
    finding = check("P3/figure-5", **changes)
    assert measured(finding, "semantics when syntax is reached") > 0.3
    assert finding.verdict is Verdict.VIOLATED


def test_shares_of_what_attention_adds():
    curves = {"largest": np.array([0.6, 1.0])}
    found = Accuracies(curves, curves, whole=(1.0, 0.52), nothing=(0.2, 0.5))
    assert found.held(0, "largest", 0) == pytest.approx(0.5)
    assert np.isnan(found.held(1, "largest", 0))


def test_answers_by_way_of_the_right_type():
    right_type = torch.tensor([[0, 0, 0, 1], [1, 0, 1, 1], [1, 1, 1, 1]], dtype=torch.bool)
    right = torch.tensor([[0, 0, 0, 0], [0, 0, 1, 0], [1, 1, 1, 1]], dtype=torch.bool)
    found = Answers(right_type, right)
    assert found.by_way_of_type == 1
    assert found.syntax_first == pytest.approx(2 / 3)
    assert np.isnan(Answers(right_type[[0, 0]], right[[0, 0]]).syntax_first)


def test_the_file_of_hotpotqa_is_taken_where_it_is(tmp_path, monkeypatch):
    rows = [{"question": f"Who is number {i} of all ?", "answer": f"person {i % 3}"} for i in range(40)]
    path = tmp_path / language_setting.HOTPOTQA[0]
    path.parent.mkdir()
    path.write_bytes(gzip.compress(json.dumps(rows).encode()))
    for folder, expected in ((tmp_path, 1.0), (tmp_path / "none", 0.0)):
        monkeypatch.setenv("ATTANGENT_DATA", str(folder))
        finding = check("P3/figure-7", source="HotpotQA", **TINY)
        assert finding.hypotheses[0].measured == expected
        assert ("ATTANGENT_DATA" in finding.remark) == (expected == 0)


def test_counterfact_is_taken_where_it_is(monkeypatch):
    folder = os.environ.get("ATTANGENT_DATA")
    if not folder or not language_setting._files("CounterFact"):
        pytest.skip("set ATTANGENT_DATA to a folder with the three files of counterfact/")
    finding = check("P3/figure-5", source="CounterFact", facts=100, **TINY)
    assert finding.hypotheses_met
    assert finding.remark == "Trained on 178 examples of CounterFact."
    monkeypatch.delenv("ATTANGENT_DATA")
    assert not check("P3/figure-5", source="CounterFact", facts=100, **TINY).hypotheses_met
