"""The claims of P1 on prefix attention: what they find, and that each can find the opposite."""

import math

import pytest
import torch

from attangent.attention import features, ntk_attention, prefix_attention
from attangent.attention.features import Elu, Taylor
from attangent.attention.state import PrefixState
from attangent.audit import Verdict, registry
from attangent.audit.papers.p1 import attention_algorithms
from attangent.audit.papers.p1.attention_counting import (
    algorithm_3,
    algorithm_4,
    count_3,
    count_4,
    last_exponent,
)
from attangent.audit.papers.p1.attention_lemma import measure, promised_order
from attangent.audit.papers.p1.bounded_prefix import BoundedPrefix, error_from

FOUND = {
    "P1/equation-7": "holds",
    "P1/algorithm-1": "holds",
    "P1/algorithm-2": "holds",
    "P1/theorem-4.1": "holds",
    "P1/corollary-j.3": "holds",
    "P1/lemma-j.7": "holds",
    "P1/figure-3": "violated",
    "P1/appendix-c-parameters": "holds",
}


def check(id, seed=0, **changes):
    claim = registry.get(id)
    return claim.check(claim.quick | changes, seed)


def measured(finding, name):
    return next(c.measured for c in finding.conclusions if name in c.name)


@pytest.mark.parametrize(("id", "verdict"), FOUND.items(), ids=FOUND)
def test_what_the_audit_finds(id, verdict):
    finding = check(id, seed=1)
    assert finding.verdict == verdict
    assert finding.figures
    assert finding.numbers
    assert "\n" not in finding.remark


@pytest.mark.parametrize("id", FOUND)
def test_the_same_seed_gives_the_same_numbers(id):
    one, other = check(id, seed=2), check(id, seed=2)
    assert (one.hypotheses, one.conclusions, one.numbers) == (
        other.hypotheses,
        other.conclusions,
        other.numbers,
    )


BROKEN = {
    "P1/equation-7": {"orders": [1, 2]},
    "P1/algorithm-1": {"printed_m": 0.5},
    "P1/theorem-4.1": {"order": 2},
    "P1/corollary-j.3": {"order": 2},
    "P1/lemma-j.7": {"constant": 1.0},
    "P1/appendix-c-parameters": {"lora_matrices": 1},
}


@pytest.mark.parametrize(("id", "changes"), BROKEN.items(), ids=BROKEN)
def test_violated_where_the_statement_is_made_false(id, changes):
    assert check(id, **changes).verdict is Verdict.VIOLATED


def test_figure_3_holds_but_for_the_quadratic_growth():
    assert check("P1/figure-3", growth=0.999).verdict is Verdict.HOLDS


def test_prefix_attention_that_forgets_its_prefix_is_found_out(monkeypatch):
    def plain(q, k, v, prefix_k, prefix_v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    monkeypatch.setattr(attention_algorithms, "prefix_attention", plain)
    assert check("P1/algorithm-1").verdict is Verdict.VIOLATED


def test_ntk_attention_that_doubles_its_masses_is_found_out(monkeypatch):
    def doubled(q, k, v, state):
        return ntk_attention(q, k, v, PrefixState(state.features, state.Z, 2 * state.k))

    monkeypatch.setattr(attention_algorithms, "ntk_attention", doubled)
    assert check("P1/algorithm-2").verdict is Verdict.VIOLATED


def test_an_order_too_low_is_found_out(monkeypatch):
    monkeypatch.setattr(features, "order_for", lambda bound, tolerance: 1)
    assert check("P1/lemma-j.7").verdict is Verdict.VIOLATED


def test_entries_beyond_the_theorem_are_only_measured():
    finding = check("P1/theorem-4.1", bounds=[2.1], lengths=[64, 256], d=1)
    assert finding.verdict is Verdict.MEASURED


def test_polynomial_features_in_place_of_exp_break_the_equation(monkeypatch):
    """Features scaled by 1/d, as Lemma J.7 prints them, do not give the attention of the prefix."""
    right = Taylor.forward
    monkeypatch.setattr(Taylor, "forward", lambda self, x: right(self, x * self.dim**-0.25))
    assert check("P1/equation-7").verdict is Verdict.VIOLATED


def test_fixed_maps_plateau_while_values_depend_on_keys():
    finding = check("P1/theorem-4.1", seed=3)
    assert measured(finding, "elu") < 0.15
    assert measured(finding, "printed") < 0.15
    assert measured(finding, "Taylor, order 2") < 0.15


def test_hyper_attention_gains_nothing_from_m_where_tokens_grow_too():
    finding = check("P1/corollary-j.3", seed=1)
    assert measured(finding, "HyperAttention, L = m") < 0.2
    assert measured(finding, "HyperAttention, L = 256") > 0.4


@pytest.mark.parametrize(("L", "m", "d"), [(5, 7, 3), (8, 1, 4), (3, 20, 2)])
def test_counts_are_those_of_the_products_written_out(L, m, d):
    assert count_3(L, m, d) == L * d * d + 2 * (m + L) * d * d + 2 * L * (m + L) * d + L * (m + L)
    assert count_4(L, d, Elu(d), (d, d), (d,)) == 3 * L * d * d + 2 * L * L * d + L * L + L * d + L * d * d


def test_algorithms_as_printed_are_the_two_attentions():
    rng = torch.Generator().manual_seed(0)
    X, P, *W = (torch.randn(n, 4, generator=rng, dtype=torch.float64) for n in (5, 9, 4, 4, 4))
    q, k, v = ((X @ w)[None, None] for w in W)
    prefix = P @ W[1], P @ W[2]
    exact = prefix_attention(q, k, v, prefix[0][None], prefix[1][None])
    torch.testing.assert_close(algorithm_3(X, P, *W), exact[0, 0])
    state = PrefixState.from_prefix(Elu(4), *prefix)
    found = algorithm_4(X, state.Z[0], state.k[0], *W, phi=Elu(4))
    torch.testing.assert_close(found, ntk_attention(q, k, v, state)[0, 0])


def test_printed_example_of_figure_3():
    """m = 1024, d = 32: 35840 and 4128 parameters."""
    finding = check("P1/figure-3")
    assert measured(finding, "parameters of prefix attention") == 35840
    assert measured(finding, "parameters of NTK-Attention") == 4128


def test_exponent_of_a_power_is_the_power():
    assert last_exponent([1, 10, 100], [5, 500, 50000]) == pytest.approx(2)


def test_error_bound_from_a_relative_error_is_kept_by_the_worst_weights():
    """Two tokens of values +-1: one weight too large, the other too small, as far as the error allows."""
    e = 0.2
    high, low = (1 + e), (1 - e)
    assert abs((high - low) / (high + low)) <= error_from(e, 1.0)
    assert error_from(1.5, 1.0) == 2.0


def test_values_of_the_bounded_prefix_keep_the_bound_and_follow_the_keys():
    prefix = BoundedPrefix.draw(50, 7, 3, 0.5, seed=0)
    assert prefix.K_C.shape == (1, 50, 3)
    assert max(t.abs().max().item() for t in (prefix.Q, prefix.K, prefix.V, prefix.K_C, prefix.V_C)) <= 0.5
    assert torch.equal(prefix.V_C[..., 1], prefix.K_C[..., 0])


def test_lemma_case_measures_the_corner():
    """The corners -B, B carry the largest error, and the order below would miss the accuracy there."""
    case = measure(1e-3, 1.0, 2, 10, seed=0)
    assert 1e-4 < case.relative_error <= 1e-3
    assert case.size == math.comb(case.order + 2, 2)
    assert promised_order(0.5, 2.0) == 4.0
