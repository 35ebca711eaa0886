"""The search: chosen by one metric, judged by another, the model as it was."""

import pytest
import torch

from attangent import AttangentError
from attangent.stages import search_spectrum
from tests.stages.models import made


def rank_of(module):
    return int(torch.linalg.matrix_rank(module.weight.detach(), tol=1e-4))


def test_the_edit_the_metric_asks_for_is_found():
    model = made("llama")
    wanted = model.model.layers[1].self_attn.v_proj
    before = [weight.clone() for weight in model.parameters()]
    full = rank_of(wanted)
    found = search_spectrum(
        model, lambda m: -rank_of(wanted), lambda m: float(rank_of(wanted)), rhos=(0.5, 0.1), quiet=True
    )
    assert found.tried[["layer", "target", "rho"]].iloc[0].tolist() == [1, "v", 0.1]
    assert len(found.tried) == 2 * 5 * 2
    assert found.validation_before == -full
    assert (found.test_before, found.test_after) == (full, 1)
    assert all(torch.equal(*pair) for pair in zip(before, model.parameters(), strict=True))


def test_nothing_better_is_none():
    found = search_spectrum(made("gpt2"), lambda m: 0.0, lambda m: 3.0, targets=["q"], rhos=[0.5], quiet=True)
    assert found.best is None
    assert found.test_before == found.test_after == 3


@pytest.mark.parametrize("value", [float("nan"), None, "good"])
def test_metrics_that_return_nonsense_are_named(value):
    with pytest.raises(AttangentError, match="validate returned"):
        search_spectrum(made("gpt2"), lambda m: value, lambda m: 0.0, quiet=True)
