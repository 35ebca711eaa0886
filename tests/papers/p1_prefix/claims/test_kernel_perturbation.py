import pytest
import torch

from attangent import AttangentError
from attangent.audit import Verdict
from attangent.papers.p1_prefix.claims import kernel_perturbation
from tests.papers.harness import ClaimSuite, check, line


class TestClaims(ClaimSuite):
    found = {
        "P1/lemma-3.1": "violated",
        "P1/claim-g.4": "measured",
    }
    broken = {
        "P1/claim-g.4": {"rate": 100.0},
    }

    def examine(self, finding):
        assert finding.figures


def test_part_1_of_lemma_3_1_cannot_fail_and_part_2_would_hold_if_copies_did_not_add_up(monkeypatch):
    assert check("P1/lemma-3.1").judgements["1"].trivial
    monkeypatch.setattr(kernel_perturbation, "_change_of_copies", lambda settings, n, seed: n**0.5)
    assert check("P1/lemma-3.1").verdict is Verdict.HOLDS


def test_part_1_of_lemma_3_1_fails_for_a_kernel_that_jumps(monkeypatch):
    def jumping(p, settings, U, kind):
        return {R: 1e300 * torch.ones(2, 2, dtype=torch.float64) for R in settings.radii}

    monkeypatch.setattr(kernel_perturbation, "_changes", jumping)
    assert check("P1/lemma-3.1").judgements["1"].verdict is Verdict.VIOLATED


def test_data_outside_the_unit_ball_are_refused_where_the_theorem_excludes_them():
    with pytest.raises(AttangentError, match="expected at most 1"):
        check("P1/claim-g.4", x_norm=2.0)


class TestLemmasK(ClaimSuite):
    found = {
        "P1/lemma-k.1": "violated",
        "P1/lemma-k.2": "holds",
    }
    broken = {
        "P1/lemma-k.2": {"C": 0.0, "sigma": 3.0},
    }
    benign = {
        "P1/lemma-k.1": {"C": 40.0},
    }

    def examine(self, finding):
        assert finding.figures


def test_parts_that_cannot_fail_do_not_hold_by_themselves():
    parts = check("P1/lemma-k.1").judgements
    assert {name for name, part in parts.items() if part.trivial} >= {"4", "9", "12"}
    assert not parts["3"].trivial
    growth = line(check("P1/lemma-k.1", m=65536), "over log m")
    assert growth.kept is False
    assert not growth.claimed


def test_a_bound_below_the_products_fails_at_any_length():
    assert check("P1/lemma-k.1", C=0.0).judgements["1"].verdict is Verdict.VIOLATED
