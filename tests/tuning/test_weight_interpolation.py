"""Between start and end: the share of least loss."""

import pytest
import torch

from attangent.tuning.checkpoints import trained_tensors
from attangent.tuning.weight_interpolation import SHARES, best_share, blend


def ends():
    model = torch.nn.Linear(2, 1)
    start = {name: torch.zeros_like(t) for name, t in trained_tensors(model).items()}
    end = {name: torch.ones_like(t) for name, t in start.items()}
    return model, start, end


@pytest.mark.parametrize("target", SHARES)
def test_the_best_share_is_found_and_kept(target):
    model, start, end = ends()
    share, losses = best_share(model, start, end, lambda: abs(model.bias.item() - target))
    assert (share, set(losses)) == (target, set(SHARES))
    assert model.weight.tolist() == [[target, target]]


def test_a_tie_keeps_less():
    model, start, end = ends()
    assert best_share(model, start, end, lambda: 1.0)[0] == 0
    assert model.bias.item() == 0


def test_the_ends_are_exact():
    model, start, end = ends()
    end["bias"] = torch.tensor([0.1])
    blend(model, start, end, 1.0)
    assert torch.equal(model.bias, end["bias"])
