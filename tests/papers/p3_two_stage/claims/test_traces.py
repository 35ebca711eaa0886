"""The tests of `traces.py`."""

import dataclasses

import pytest
import torch

from attangent.audit import Verdict
from attangent.audit.registry import get
from attangent.papers.p3_two_stage.claims import traces
from attangent.papers.p3_two_stage.claims.traces import FactorRun
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P3/corollary-1": "violated",
        "P3/corollary-1-repaired": "holds",
    }


def test_traces_as_printed_would_be_believed(monkeypatch):
    class AsPrinted(FactorRun):
        def __init__(self, settings, seed):
            super().__init__(settings, seed)
            one = torch.ones(settings.runs, dtype=torch.float64)
            self.parts = [
                dataclasses.replace(part, traces=(one, middle * one, end * one), printed=middle * one)
                for part, middle, end in zip(self.parts, (2, 1), (2, 9), strict=True)
            ]

    monkeypatch.setattr(traces, "FactorRun", AsPrinted)
    assert check("P3/corollary-1").verdict is Verdict.MEASURED


def test_the_factors_take_the_gradient_of_their_product():
    """One step against autograd over W_K and W_Q."""
    settings = get("P3/corollary-1").quick | {"d": 4, "N": 8, "runs": 1}
    run = FactorRun(settings, 0)
    run.factors = [traces._start(settings, run.scale, 5, name) for name in ("W", "V")]
    before = [[factor.clone().requires_grad_() for factor in pair] for pair in run.factors]
    run._walk(1)
    W, V = (keys.mT @ queries for keys, queries in before)
    weights = traces.ReluWeights(W, V, torch.zeros(1, dtype=torch.float64))
    loss = torch.nn.functional.softplus(-run.prompts.answers * run.model.f(run.prompts, weights)).mean()
    loss.backward()
    kept = 1 - settings.rate * run.scale.weight_decay
    for pair, stepped in zip(before, run.factors, strict=True):
        for factor, after in zip(pair, stepped, strict=True):
            wanted = kept * factor.detach() - settings.rate * factor.grad
            assert after.flatten().tolist() == pytest.approx(wanted.flatten().tolist(), abs=1e-12)


def test_gradients_that_are_said_to_be_smaller_are_found_out(monkeypatch):
    right = traces.FactorRun

    class Understated(right):
        def __init__(self, settings, seed):
            super().__init__(settings, seed)
            self.parts = [dataclasses.replace(part, steepest=0.01 * part.steepest) for part in self.parts]

    monkeypatch.setattr(traces, "FactorRun", Understated)
    assert check("P3/corollary-1-repaired").verdict.failed
