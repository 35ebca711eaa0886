"""The tests of `papers/p2/table_1.py`."""

import math
from functools import cache

import pytest
import torch

from attangent.audit import Verdict, registry
from attangent.kernels import SoftmaxNetwork
from attangent.papers.p2_softmax.claims.table_1 import FittedNetwork, NetworkRuns
from attangent.papers.p2_softmax.networks import ExpNetwork, ReLUNetwork

CLAIM = registry.get("P2/table-1")


def check(seed=0, **changes):
    return CLAIM.check(CLAIM.quick | changes, seed)


found = cache(check)


@pytest.mark.parametrize("seed", [0, 2])
def test_softmax_needs_about_as_much(seed):
    finding = found(seed)
    assert finding.verdict == "measured"
    assert len(finding.figures) == 2
    for name in ("ReLU", "exp", "softmax"):
        assert 10 < finding.numbers[f"steps, {name}"] < 100
        assert finding.numbers[f"lambda_min, {name}"] > 0.01


def test_small_weights_make_a_difference():
    finding = check(sigma=0.5, widths=[max(CLAIM.quick.widths)])
    assert finding.conclusions[0].kept is False
    assert not finding.conclusions[0].decides
    assert finding.conclusions[0].measured > 3
    assert finding.numbers["lambda_min, ReLU"] == pytest.approx(found(0).numbers["lambda_min, ReLU"])


def test_a_softmax_without_its_normaliser_is_found_out(monkeypatch):
    swapped = {"ReLU": ReLUNetwork, "exp": SoftmaxNetwork, "softmax": ExpNetwork}
    monkeypatch.setattr("attangent.papers.p2_softmax.claims.table_1.NETWORKS", swapped)
    finding = check(widths=[1024], steps=50)
    sensitivity = next(c for c in finding.conclusions if c.name.endswith("softmax / exp"))
    assert sensitivity.measured > 2
    assert finding.verdict is Verdict.NOT_REPRODUCED


def test_the_neurons_needed_are_the_smallest_that_stay_enough():
    runs = {
        m: FittedNetwork(1.0, steps, 0.0, torch.ones(1))
        for m, steps in ((8, 20), (16, 90), (32, 30), (64, 20))
    }
    assert NetworkRuns(runs, 0.0).neurons(3.0) == 32
    assert NetworkRuns(runs, 0.0).neurons(5.0) == 8
    never = {
        8: FittedNetwork(1.0, math.inf, 0.0, torch.ones(1)),
        16: FittedNetwork(1.0, 10, 0.0, torch.ones(1)),
    }
    assert NetworkRuns(never, 0.0).neurons(3.0) == 16
