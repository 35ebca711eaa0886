"""The tests of `papers/p2/perturbation.py`."""

import torch

from attangent.audit import registry
from attangent.papers.p2_softmax.claims.perturbation import _printed_kernel
from attangent.papers.p2_softmax.claims.softmax_regression import softmax_regression
from tests.papers.harness import ClaimSuite


class TestClaims(ClaimSuite):
    found = {
        "P2/lemma-5.1": "holds",
        "P2/lemma-b.1": "holds",
    }
    broken = {
        "P2/lemma-5.1": {"C": 0.0, "x_norm": 60.0},
        "P2/lemma-b.1": {"C": 0.0},
    }

    def examine(self, finding):
        assert finding.figures


def test_printed_kernel_is_the_networks_kernel():
    p = softmax_regression(registry.get("P2/lemma-5.1").quick, 3)
    torch.testing.assert_close(_printed_kernel(p, p.network.W), p.kernel, rtol=1e-11, atol=1e-12)
