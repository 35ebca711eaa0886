"""The claims of P4: what they find, and that each can find the opposite."""

import decimal
import math

import pytest
import torch

from attangent.audit import Verdict, registry
from attangent.audit.papers.p4 import bounds, convergence, figures_one_layer, interpretation, softmax
from attangent.audit.papers.p4.dictionary_setting import Reparametrised, dictionary, model
from attangent.icl import Dictionary, OneLayerAttention, RidgeLimit, Training
from attangent.icl.transformer import InContextTransformer

FOUND = {
    "P4/lemma-1": "holds",
    "P4/lemma-2": "holds",
    "P4/lemma-4": "holds",
    "P4/lemma-5": "violated",
    "P4/lemma-6": "holds",
    "P4/lemma-7": "holds",
    "P4/lemma-8": "holds",
    "P4/lemma-10": "violated",
    "P4/proposition-1": "holds",
    "P4/theorem-1": "holds",
    "P4/theorem-1-paper-size": "measured",
    "P4/theorem-2": "holds",
    "P4/equation-26": "holds",
    "P4/equation-66": "holds",
    "P4/multi-head": "holds",
    "P4/generalization": "holds",
    "P4/figure-2a": "holds",
    "P4/figure-2b": "holds",
    "P4/figure-3": "violated",
    "P4/figure-4": "violated",
    "P4/figure-5": "holds",
}


def check(id, seed=0, **changes):
    claim = registry.get(id)
    return claim.check(claim.quick | changes, seed)


def line(finding, start):
    return next(line for line in finding.conclusions if line.name.startswith(start))


@pytest.mark.parametrize(("id", "verdict"), FOUND.items(), ids=FOUND)
def test_what_the_audit_finds(id, verdict):
    assert check(id, seed=1).verdict == verdict


BROKEN_HYPOTHESES = {
    "P4/lemma-2": {"constant": 0.5},
    "P4/lemma-4": {"drawn_tau": 0.09},
    "P4/lemma-6": {"gamma": 2.0},
    "P4/lemma-7": {"tokens": "gaussian", "d": 40},
    "P4/lemma-8": {"tokens": "gaussian", "d": 40},
    "P4/proposition-1": {"repeat_token": True},
    "P4/theorem-1": {"rate_factor": 300.0, "steps": 200},
    "P4/theorem-1-paper-size": {"rate_factor": 4.0, "steps": 10},
    "P4/theorem-2": {"steps_factor": 1e-3},
    "P4/equation-26": {"N": 4},
    "P4/equation-66": {"alpha_factor": 1.001},
    "P4/multi-head": {"K": 10, "steps": 5},
    "P4/generalization": {"N": 2},
    "P4/figure-2a": {"rate": 1e-6, "steps": 50},
    "P4/figure-2b": {"rate": 1e-6, "steps": 20},
    "P4/figure-5": {"rate": 1e-6, "steps": 10},
}


@pytest.mark.parametrize(("id", "changes"), BROKEN_HYPOTHESES.items(), ids=BROKEN_HYPOTHESES)
def test_violated_where_a_hypothesis_is_broken(id, changes):
    assert check(id, **changes).verdict is Verdict.VIOLATED


NOT_VIOLATED = {
    "P4/lemma-5": {"tau": 1e-6},
    "P4/lemma-10": {"log10_gammas": [0, 2], "log10_alphas": [-1, 0]},
    "P4/figure-3": {"lengths": [100]},
    "P4/figure-4": {"few": [1], "steps": 300},
}


@pytest.mark.parametrize(("id", "changes"), NOT_VIOLATED.items(), ids=NOT_VIOLATED)
def test_not_violated_where_the_flaw_cannot_show(id, changes):
    assert check(id, **changes).verdict is not Verdict.VIOLATED


@pytest.mark.parametrize("id", ["P4/lemma-5", "P4/lemma-10"])
def test_the_corrected_form_holds(id):
    corrected = [line for line in check(id).conclusions if not line.claimed]
    assert corrected
    assert all(line.kept for line in corrected)


def test_too_few_heads_have_no_full_rank():
    finding = check("P4/proposition-1", heads=7)
    assert finding.verdict is Verdict.VIOLATED
    assert line(finding, "least rank").measured == 7


def test_gaussian_tokens_have_full_rank_on_paper_only():
    finding = check("P4/proposition-1")
    assert line(finding, "zeta_0 in floating point, unit").kept
    assert not line(finding, "zeta_0 in floating point, Gaussian").kept


def test_softmax_gradient_claim_finds_a_wrong_formula(monkeypatch):
    right = softmax._printed
    monkeypatch.setattr(softmax, "_printed", lambda m, h, k: right(m, h, k) * (1 + 1e-6))
    assert check("P4/lemma-1").verdict is Verdict.VIOLATED


def test_answers_that_are_not_ridge_are_found_out(monkeypatch):
    right = RidgeLimit.predict
    monkeypatch.setattr(RidgeLimit, "predict", lambda self, labels: 0.5 * right(self, labels))
    assert check("P4/theorem-2", steps_factor=0.1).verdict is Verdict.VIOLATED


def test_untrained_attention_does_not_generalise(monkeypatch):
    monkeypatch.setattr(OneLayerAttention, "fit", lambda self, *method, **options: None)
    assert check("P4/generalization").verdict is Verdict.VIOLATED


def test_a_transformer_blind_to_labels_is_found_out(monkeypatch):
    right = InContextTransformer.forward
    monkeypatch.setattr(
        InContextTransformer, "forward", lambda self, v, y, q: right(self, v, torch.zeros_like(y), q)
    )
    assert check("P4/figure-2b", steps=40).verdict is Verdict.VIOLATED


def test_too_few_steps_leave_theorem_2_open():
    assert check("P4/theorem-2", most_steps=5).verdict is Verdict.OPEN


def test_the_reparametrised_gradient_is_the_slope_of_its_gap():
    given = dictionary(registry.get("P4/lemma-7").quick, 0)
    l = Reparametrised(given, RidgeLimit(given).A, 3.0)
    Q, alpha = bounds._points(registry.get("P4/lemma-7").quick, 0)[100]
    moved = alpha.clone()
    moved[0, 0] += 1e-6
    slope = (l.gap(Q, moved) - l.gap(Q, alpha)) / 1e-6
    assert slope == pytest.approx(l.gradient(Q, alpha)[1][0, 0].item(), rel=1e-3)


def test_floor_of_one_head_is_below_every_single_head():
    settings = registry.get("P4/multi-head").quick
    given = dictionary(settings, 0)
    floor = interpretation.least_gap_of_one_head(given)
    for seed in range(3):
        one = model(settings | {"heads": 1, "logit_std": 1.0 + seed}, seed, given)
        assert one.fit("varpro", steps=60).gap >= floor
    assert floor > 0.01


def test_floor_of_one_head_is_zero_where_no_query_is_asked():
    given = Dictionary.random(K=5, d=4, m=3, N=5, tau=0.1)
    assert interpretation.least_gap_of_one_head(given) == pytest.approx(0, abs=1e-20)


def test_rank_by_exact_elimination():
    rows = [[1, 2, 3], [2, 4, 6], [0, 1, 1]]
    table = [[decimal.Decimal(x) for x in row] for row in rows]
    assert convergence._rank(table, negligible=decimal.Decimal("1e-20")) == 2
    wide = [[decimal.Decimal(x) for x in row] for row in [[1, 2, 3], [2, 4, 7]]]
    assert convergence._rank(wide, negligible=decimal.Decimal("1e-20")) == 2
    tiny = [[decimal.Decimal(1), decimal.Decimal(1)], [decimal.Decimal(1), 1 + decimal.Decimal("1e-25")]]
    assert convergence._rank(tiny, negligible=decimal.Decimal("1e-27")) == 2


def test_wrong_turns_are_counted_from_both_sides():
    assert figures_one_layer._wrong_turns([8, 9, 10, 11, 12], [2.0, 1.0, 0.0, 1.0, 2.0], 10) == 0
    assert figures_one_layer._wrong_turns([8, 9, 10, 11, 12], [1.0, 2.0, 0.0, 2.0, 1.0], 10) == 2


def test_a_bound_that_is_passed_names_its_first_step():
    gaps = torch.tensor([1.0, 0.5, 0.6, 0.1], dtype=torch.float64)
    run = Training("gd", torch.arange(4), gaps, "steps")
    broken = convergence._kept(run, 0.4)
    assert broken.first_violation == 2
    assert broken.measured == pytest.approx(0.6 / 0.36)
    diverged = Training("gd", torch.arange(2), torch.tensor([1.0, math.inf]), "diverged")
    assert convergence._kept(diverged, 0.1).measured == math.inf
