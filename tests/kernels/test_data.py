import pytest
import torch

from attangent import AttangentError
from attangent.kernels import unit_data
from attangent.kernels.data import draw_weights


def test_points_lie_on_the_sphere_and_targets_in_the_ball():
    X, Y = unit_data(500, 4, 3, seed=0)
    torch.testing.assert_close(X.norm(dim=1), torch.ones(500).double())
    radius = Y.norm(dim=1)
    assert radius.max() <= 1
    assert radius.pow(3).mean().item() == pytest.approx(0.5, abs=0.05)  # uniform in the ball


def test_the_seed_decides():
    assert torch.equal(unit_data(3, 2, 2, 1)[0], unit_data(3, 2, 2, 1)[0])
    assert not torch.equal(unit_data(3, 2, 2, 1)[0], unit_data(3, 2, 2, 2)[0])


@pytest.mark.parametrize(("sizes", "named"), [((0, 2, 2), "n"), ((3, 0, 2), "d_in"), ((3, 2, -1), "d_out")])
def test_sizes_are_checked(sizes, named):
    with pytest.raises(AttangentError, match=f"{named} is"):
        unit_data(*sizes, seed=0)


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


def test_the_seed_decides_the_weights():
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
