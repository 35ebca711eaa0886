import pytest
import torch

from attangent.attention.features import Printed
from attangent.papers.p1_prefix.claims.updates import PrefixMap
from tests.papers.harness import ClaimSuite, check, ours


class TestClaims(ClaimSuite):
    found = {
        "P1/section-4.1-updates": "holds",
        "P1/equation-6-map": "open",
    }
    broken = {
        "P1/section-4.1-updates": {"move": "permutation"},
    }


def test_lines_outside_training_do_not_decide():
    finding = check("P1/section-4.1-updates")
    permuted, rank = ours(finding)
    assert (permuted.kept, rank.kept) == (False, False)
    assert rank.measured == 20


def test_the_printed_map_gives_d_where_exp_gives_1():
    lines = check("P1/equation-6-map", dims=[4, 16]).conclusions
    assert lines[0].measured == pytest.approx(16)
    assert not any(line.decides for line in lines)


def test_the_map_is_equation_7():
    torch.manual_seed(0)
    to_state, P = PrefixMap(Printed(3), 3, 0), torch.randn(5, 3, dtype=torch.float64)
    features = Printed(3)(P @ to_state.W_K)
    Z = sum(torch.outer(f, p @ to_state.W_V) for f, p in zip(features, P, strict=True))
    torch.testing.assert_close(to_state(P), torch.cat([Z.flatten(), features.sum(dim=0)]))
