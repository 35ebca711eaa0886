"""Orders: a goal, a tolerance or a plain size, and what is refused before any work."""

import pytest

from attangent import AttangentError
from attangent.compression.compressor import Compressor
from attangent.compression.request import Order
from tests.compression.cases import Letters, tiny_llama


@pytest.fixture(scope="module")
def job():
    return Compressor(tiny_llama(layers=1), Letters(), "some text that is long enough. " * 4)


def test_without_a_goal_the_size_is_taken_as_it_is(job):
    outcome = Order(keep=0, size=10).carry_out(job)
    assert outcome.found.size == 10
    assert outcome.attempts == []


def test_a_tolerance_takes_the_place_of_the_goal(job):
    outcome = Order(tolerance=0.9).carry_out(job)
    assert outcome.attempts == []
    assert outcome.found.exact or job.fidelity(outcome.found).ratio <= 0.9


def test_a_method_without_sizes_has_no_goal(job):
    assert Order(method="elu").carry_out(job).found.method == "elu"


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (Order(size=3), "always kept"),
        (Order(method="magic"), "method is"),
        (Order(method="elu", distill=2), "no virtual tokens"),
        (Order(tolerance=1.5), "tolerance is 1.5"),
        (Order(keep=-1), "keep is -1"),
        (Order(seconds=-1), "seconds is -1"),
        (Order(distill=-1), "distill is -1"),
    ],
)
def test_what_cannot_be_carried_out_is_refused(order, message):
    with pytest.raises(AttangentError, match=message):
        order.check()
