import os

import pytest
import torch
from threadpoolctl import threadpool_info

from attangent import AttangentError
from benchmarks.harness.child import Unavailable
from benchmarks.harness.entrants import InProcess
from benchmarks.harness.measure import (
    Effort,
    Excuses,
    enough_repeats,
    fixed_threads,
    interleave,
    interleave_laps,
)


class Field:
    """Entrants whose calls take scripted seconds on a fake clock; `log` is the order of the calls."""

    def __init__(self, clock):
        self.clock, self.log = clock, []

    def entrant(self, name, seconds):
        remaining = iter(seconds) if not callable(seconds) else None

        def work():
            self.log.append(name)
            self.clock.now += next(remaining) if remaining else seconds(len(self.log))

        return InProcess(work, {}, self.clock)


@pytest.fixture
def field(clock):
    return Field(clock)


def quiet(step):
    pass


def test_rounds_are_interleaved_and_the_order_rotates(field):
    entrants = {name: field.entrant(name, lambda call: 1.0) for name in "ABC"}
    interleave(entrants, Effort(rounds=4, least_seconds=0.5), Excuses(), quiet)
    warm_up, rounds = "".join(field.log[:6]), "".join(field.log[6:])
    assert warm_up == "AABBCC"
    assert rounds == "ABCBCACABABC"


def test_samples_are_seconds_a_call_and_leave_the_warm_up_out(field):
    slow_start = [9.0, 2.0, 3.0, 1.0, 2.0]
    samples = interleave(
        {"A": field.entrant("A", slow_start)}, Effort(rounds=3, least_seconds=1.0), Excuses(), quiet
    )
    assert samples == {"A": [3.0, 1.0, 2.0]}


@pytest.mark.parametrize(("one_call", "expected"), [(0.2, 1), (0.1, 1), (0.04, 3), (0.0015, 74)])
def test_short_work_is_repeated_until_it_outlasts_the_clock(field, one_call, expected):
    entrant = field.entrant("A", lambda call: one_call)
    repeats = enough_repeats(entrant, least_seconds=0.1)
    assert repeats == expected
    assert entrant.seconds(repeats) >= 0.1


def test_work_below_the_resolution_of_the_clock_is_repeated_more(field):
    """The clock moves on every hundredth call only."""
    entrant = field.entrant("A", lambda call: 1.0 if call % 100 == 0 else 0.0)
    assert enough_repeats(entrant, least_seconds=0.5) == 100


def test_inner_repeats_are_divided_out(field):
    samples = interleave(
        {"A": field.entrant("A", lambda call: 0.01)}, Effort(rounds=2, least_seconds=0.1), Excuses(), quiet
    )
    assert samples["A"] == pytest.approx([0.01, 0.01])


def test_who_becomes_unavailable_leaves_and_the_others_go_on(field):
    def failing(call):
        if call > 6:
            raise Unavailable("ran out of memory")
        return 1.0

    excuses = Excuses()
    entrants = {"A": field.entrant("A", lambda call: 1.0), "B": field.entrant("B", failing)}
    samples = interleave(entrants, Effort(rounds=3, least_seconds=0.5), excuses, quiet)
    assert excuses == {"B": "ran out of memory"}
    assert samples == {"A": [1.0, 1.0, 1.0]}


def test_slow_work_is_measured_twice_and_then_sits_out(field):
    entrants = {"A": field.entrant("A", lambda call: 40.0), "B": field.entrant("B", lambda call: 10.0)}
    effort = Effort(rounds=9, least_seconds=0.1, enough_seconds=60.0)
    samples = interleave(entrants, effort, Excuses(), quiet)
    assert samples == {"A": [40.0] * 2, "B": [10.0] * 6}
    assert "".join(field.log) == "AB" + "AB" + "BA" + "BBBB"  # calls this long are not warmed up twice


@pytest.mark.parametrize(("noise", "rounds"), [(0.0, 7), (0.5, 12)])
def test_rounds_go_on_until_the_ratio_is_known_or_there_were_enough(field, noise, rounds):
    entrants = {
        "A": field.entrant("A", lambda call: 1.0),
        "B": field.entrant("B", lambda call: 1.0 + noise * (call % 3)),
    }
    effort = Effort(rounds=7, least_seconds=0.1, most_rounds=12)
    samples = interleave(entrants, effort, Excuses(), quiet, baseline="A")
    assert {name: len(times) for name, times in samples.items()} == {"A": rounds, "B": rounds}


def test_rounds_end_when_the_time_is_up(field):
    entrants = {
        "A": field.entrant("A", lambda call: 1.0),
        "B": field.entrant("B", lambda call: 1.0 + call // 2 % 2),
    }
    effort = Effort(rounds=3, least_seconds=0.1, enough_seconds=12.0, most_rounds=99)
    samples = interleave(entrants, effort, Excuses(), quiet, baseline="A")
    assert 3 <= len(samples["A"]) < 9


def test_no_entrant_gives_no_samples():
    assert interleave({}, Effort(rounds=2, least_seconds=0.1), Excuses(), quiet) == {}


def test_every_call_is_announced(field):
    steps = []
    interleave(
        {"A": field.entrant("A", lambda call: 1.0)},
        Effort(rounds=2, least_seconds=0.1),
        Excuses(),
        steps.append,
    )
    assert steps == ["A, warm-up", "A, round 1", "A, round 2"]


def test_threads_and_cpus_are_fixed_within_and_restored_after():
    before = torch.get_num_threads(), os.sched_getaffinity(0)
    with fixed_threads(1):
        assert torch.get_num_threads() == 1
        assert all(pool["num_threads"] == 1 for pool in threadpool_info())
        assert len(os.sched_getaffinity(0)) == 1
    assert (torch.get_num_threads(), os.sched_getaffinity(0)) == before


def test_threads_are_restored_after_an_error():
    before = torch.get_num_threads(), os.sched_getaffinity(0)
    with pytest.raises(KeyError), fixed_threads(1):
        raise KeyError
    assert (torch.get_num_threads(), os.sched_getaffinity(0)) == before


def test_more_threads_than_cpus_are_refused():
    with pytest.raises(AttangentError, match=r"threads is 100000, but this process may use \d+ CPUs"):
        fixed_threads(100_000).__enter__()


class Laps:
    """Three laps of a second each."""

    def seconds(self, repeats):
        return 3.0 * repeats

    def start(self):
        return iter([1.0, 1.0, 1.0])


@pytest.mark.parametrize(("enough", "rounds"), [(1e9, 7), (13.0, 5), (1.0, 3)])
def test_a_race_in_laps_ends_early_where_it_takes_too_long(enough, rounds):
    effort = Effort(rounds=7, least_seconds=0.1, enough_seconds=enough)
    samples = interleave_laps({"A": Laps(), "B": Laps()}, effort, quiet, baseline="A")
    assert samples == {"A": [3.0] * rounds, "B": [3.0] * rounds}
