"""Schedules: their integrals, by formula and by quadrature."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from attangent import AttangentError
from attangent.papers.p2_softmax.diffusion import ConstantSchedule, LinearSchedule, NumericSchedule

TIMES = torch.tensor([0.0, 0.02, 0.7, 2.5, 4.999, 5.0], dtype=torch.float64)
SCHEDULES = {
    "constant": ConstantSchedule(1.7),
    "linear": LinearSchedule(0.1, 3.0, 4.0),
    "cosine": NumericSchedule(lambda t: 1.1 + torch.cos(3 * t), 5.0),
    "jump": NumericSchedule(lambda t: torch.where(t < 1.3, 0.5, 2.0), 5.0, jumps=(1.3,)),
}


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_integral_is_that_of_g(schedule):
    def g(t: float) -> float:
        return schedule.g(torch.tensor(t, dtype=torch.float64)).item()

    reference = [quad(g, 0, t.item(), points=[1.3, 4.0], limit=200)[0] for t in TIMES]
    torch.testing.assert_close(
        schedule.integral(TIMES), torch.tensor(reference, dtype=torch.float64), rtol=1e-9, atol=1e-9
    )


@given(level=st.floats(0.01, 10), t=st.floats(0, 5))
def test_numeric_constant_is_the_constant(level, t):
    numeric = NumericSchedule(lambda t: torch.full_like(t, level), 5.0)
    time = torch.tensor([t], dtype=torch.float64)
    torch.testing.assert_close(numeric.integral(time), ConstantSchedule(level).integral(time))


def test_a_jump_that_is_not_named_costs_accuracy():
    named = SCHEDULES["jump"].integral(TIMES)
    unnamed = NumericSchedule(lambda t: torch.where(t < 1.3, 0.5, 2.0), 5.0).integral(TIMES)
    assert (named - unnamed).abs().max() > 1e-5


@pytest.mark.parametrize(
    "make",
    [
        lambda: ConstantSchedule(0.0),
        lambda: LinearSchedule(1.0, -1.0, 5.0),
        lambda: NumericSchedule(lambda t: t - 1.0, 5.0),
        lambda: NumericSchedule(torch.ones_like, math.inf),
    ],
)
def test_schedules_that_are_not_positive_are_refused(make):
    with pytest.raises(AttangentError, match=r"above 0"):
        make()


def test_times_beyond_a_numeric_schedule_are_refused():
    with pytest.raises(AttangentError, match=r"up to T=5"):
        SCHEDULES["cosine"].integral(torch.tensor([6.0], dtype=torch.float64))
