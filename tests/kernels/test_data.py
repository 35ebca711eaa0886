import pytest
import torch

from attangent import AttangentError
from attangent.kernels import unit_data


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
