import pytest
from rahimi2007.features import SIZES, in_the_mean, uniform_convergence

from attangent.audit import Settings

MEAN = Settings(**SIZES, draws=100)


@pytest.mark.parametrize("seed", range(3))
def test_what_the_audit_finds(seed):
    assert uniform_convergence(Settings(**SIZES), seed).verdict == "holds"
    assert in_the_mean(MEAN, seed).verdict == "holds"


def test_without_the_shift_they_give_another_kernel():
    assert uniform_convergence(Settings(**SIZES) | {"shift": False}, 0).verdict == "violated"
    assert in_the_mean(MEAN | {"shift": False}, 0).verdict == "violated"
