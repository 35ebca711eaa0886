"""The tests of `spectra.py`."""

import numpy as np
import pytest
import torch

from attangent.audit import Verdict, registry
from attangent.papers.p3_two_stage.claims import spectra
from attangent.papers.p3_two_stage.claims.spectra import Accuracies, Answers
from tests.papers.harness import check, line, measured

TWO_HOPS = {"subjects": 60, "epochs": 12}
RHOS = [0.2, 0.8, 1.0]
TINY = {"width": 16, "layers": 1, "batch": 32, "epochs": 1, "most_examples": 60}


def test_large_values_hold_both_and_small_ones_neither():
    """On the model of figure 1 below, which is trained once."""
    finding = check("P3/figure-6", rhos=RHOS)
    assert finding.verdict is Verdict.SMALLER
    assert any(line.decides and not line.kept for line in finding.conclusions)
    assert measured(finding, "syntax in the smallest 80%, early") < 0.1
    assert measured(finding, "syntax in the smallest 80%, at the end") < 0.1
    assert measured(finding, "syntax in the largest 20%, early") > 0.9
    assert measured(finding, "semantics in the largest 20%") > 0.9
    kept = [series.y for series in finding.figures[0].series]
    assert len(finding.figures) == 4
    assert kept[0][-1] == kept[1][-1] == finding.numbers["syntax at syntax"]  # both keep all at rho = 1


def test_questions_of_two_hops_find_the_same():
    finding = check("P3/figure-7", **TWO_HOPS)
    assert finding.verdict is Verdict.SMALLER
    assert measured(finding, "semantics when syntax is reached") < 0.2
    edited = check("P3/figure-8", rhos=RHOS, **TWO_HOPS)
    assert not line(edited, "syntax in the smallest 80% minus").kept
    assert measured(edited, "syntax in the smallest 80%, at the end") < 0.1


def test_without_the_checkpoint_spectra_are_open():
    finding = check("P3/figure-6", **TINY)
    assert finding.verdict is Verdict.OPEN
    assert "train for more epochs" in finding.remark


def test_small_values_that_hold_the_syntax_would_be_believed():
    settings = registry.get("P3/figure-6").quick
    rising = np.linspace(0.1, 1.0, len(settings.rhos))
    whole = np.ones_like(rising)
    syntax = {"smallest": whole, "largest": rising, "drop_largest": whole}
    semantics = {"smallest": 0.5 * rising, "largest": np.sqrt(rising), "drop_largest": whole}
    found = Accuracies(syntax, semantics, whole=(1.0, 1.0), nothing=(0.0, 0.0))
    lines = spectra._conclusions({"syntax": found, "end": found}, settings)
    assert all(line.kept for line in lines if line.decides)


def test_shares_of_what_attention_adds():
    curves = {"largest": np.array([0.6, 1.0])}
    found = Accuracies(curves, curves, whole=(1.0, 0.52), nothing=(0.2, 0.5))
    assert found.held(0, "largest", 0) == pytest.approx(0.5)
    assert np.isnan(found.held(1, "largest", 0))


def test_small_values_do_not_bring_the_syntax_back_first():
    finding = check("P3/figure-1")
    assert finding.verdict is Verdict.SMALLER
    assert measured(finding, "answers that turn") > 10
    assert not line(finding, "answers that turn").decides
    assert measured(finding, "are missing, smallest kept") < 0.4
    assert not line(finding, "are missing, smallest kept").decides


def test_a_model_without_such_answers_is_found_out():
    finding = check("P3/figure-1", rhos=[0.5, 1.0], **TINY)
    assert not any(line.kept for line in finding.conclusions)


def test_answers_by_way_of_the_right_type():
    right_type = torch.tensor([[0, 0, 0, 1], [1, 0, 1, 1], [1, 1, 1, 1]], dtype=torch.bool)
    right = torch.tensor([[0, 0, 0, 0], [0, 0, 1, 0], [1, 1, 1, 1]], dtype=torch.bool)
    found = Answers(right_type, right)
    assert found.by_way_of_type == 1
    assert found.syntax_first == pytest.approx(2 / 3)
    assert np.isnan(Answers(right_type[[0, 0]], right[[0, 0]]).syntax_first)
