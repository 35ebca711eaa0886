"""Input maps: they stay in the unit ball and tell inputs apart."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attangent import AttangentError
from attangent.papers.p2_softmax.diffusion import NaturalInputs, PaperInputs
from tests.papers.p2_softmax.diffusion.examples import DATA, PROCESS

MAPS = {"paper": PaperInputs(), "natural": NaturalInputs()}


@pytest.mark.parametrize("inputs", MAPS.values(), ids=MAPS)
@given(t=st.floats(0.001, 50), x=st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3))
def test_inputs_lie_in_the_unit_ball(inputs, t, x):
    found = inputs(PROCESS, torch.tensor([t], dtype=torch.float64), torch.tensor([x], dtype=torch.float64))
    assert found.shape == (1, inputs.columns(3))
    assert found.norm() <= 1 + 1e-12
    assert found[0, 0] > 0  # the constant coordinate: without it the network answers 0 at 0


def test_paper_inputs_hold_time_and_place():
    found = PaperInputs(reach=2.0, constant=1.0, time=1.0)(PROCESS, DATA.t, DATA.x)
    near = DATA.x.norm(dim=1) < 2
    torch.testing.assert_close(found[near, 2:], DATA.x[near] / 2 / 3**0.5)
    assert found[:, 1].argmax() == DATA.t.argmax()


def test_natural_inputs_grow_as_the_noise_fades():
    x = torch.tensor([[0.3, 0.0]] * 2, dtype=torch.float64)
    late, early = NaturalInputs()(PROCESS, torch.tensor([4.0, 0.05], dtype=torch.float64), x)
    assert early[2] > 5 * late[2]


@pytest.mark.parametrize("make", [lambda: PaperInputs(reach=0.0), lambda: NaturalInputs(floor=-1.0)])
def test_bad_constants_are_refused(make):
    with pytest.raises(AttangentError, match="above 0"):
        make()
