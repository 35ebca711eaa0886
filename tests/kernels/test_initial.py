import pytest
import torch

from attangent import AttangentError
from attangent.kernels.initial import draw_weights


def draw(init="symmetric", m=2000, seed=0, dtype=torch.float64, sigma=0.5):
    return draw_weights(3, 2, m, sigma, init, seed, dtype)


@pytest.mark.parametrize("init", ["symmetric", "independent"])
def test_weights_are_normal_and_signs_are_signs(init):
    W, a = draw(init)
    assert W.shape == (3, 2000)
    assert a.shape == (2, 2000)
    assert W.std().item() == pytest.approx(0.5, rel=0.05)
    assert abs(W.mean().item()) < 0.05
    assert set(a.unique().tolist()) == {-1.0, 1.0}


def test_twins_share_w_and_oppose_a():
    W, a = draw("symmetric")
    assert torch.equal(W[:, ::2], W[:, 1::2])
    assert torch.equal(a[:, ::2], -a[:, 1::2])


def test_independent_neurons_have_no_twin():
    W, a = draw("independent")
    assert not torch.equal(W[:, ::2], W[:, 1::2])
    assert 0.4 < (a[0] == a[1]).double().mean() < 0.6


def test_the_seed_decides():
    assert torch.equal(draw(seed=1)[0], draw(seed=1)[0])
    assert not torch.equal(draw(seed=1)[0], draw(seed=2)[0])


def test_single_precision_is_the_rounded_draw():
    double, single = draw(), draw(dtype=torch.float32)
    assert torch.equal(double[0].float(), single[0])


@pytest.mark.parametrize("init", ["Symmetric", "", None])
def test_unknown_initialisation_is_refused(init):
    with pytest.raises(AttangentError, match="symmetric, independent"):
        draw(init)


def test_odd_widths_have_no_twins():
    with pytest.raises(AttangentError, match="m is 7"):
        draw("symmetric", m=7)
