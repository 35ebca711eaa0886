import sys

import pytest
import torch

from attangent import AttangentError
from benchmarks.harness.benchmark import (
    Benchmark,
    Contestant,
    Disagreement,
    Goal,
    Instruments,
    Outside,
    Unavailable,
    label,
    run,
    step_count,
)
from benchmarks.harness.measure import Effort

SMALL, LARGE = {"n": 2}, {"n": 4}
EFFORT = Effort(rounds=3, least_seconds=0.5)


class Track:
    """Contestants that take size n times their pace on a fake clock and return n ones."""

    def __init__(self, clock):
        self.clock = clock
        self.instruments = Instruments(clock=clock, peak=lambda benchmark, contestant, size: 100 * size["n"])

    def contestant(self, name, pace, answer=1.0, **more):
        def build(size):
            self.clock.now += 1000.0  # set-up is never part of a measurement

            def work():
                self.clock.now += pace * size["n"]
                return torch.full((size["n"],), answer)

            return work

        return Contestant(name, build, **more)

    def benchmark(self, *contestants, **changes):
        given = {"name": "toy", "about": "A toy.", "sizes": [SMALL, LARGE], "baseline": contestants[0].name}
        return Benchmark(contestants=contestants, **(given | changes))

    def run(self, benchmark, **instruments):
        return run(benchmark, EFFORT, Instruments(**(vars(self.instruments) | instruments)))


@pytest.fixture
def track(clock):
    return Track(clock)


def by_contestant(rows, size):
    return {row["contestant"]: row for row in rows if row["size"] == size}


def test_rows_hold_minima_and_ratios_to_the_baseline_at_each_size(track):
    rows = track.run(track.benchmark(track.contestant("base", 2.0), track.contestant("fast", 0.5)))
    assert [(row["contestant"], row["size"]["n"]) for row in rows] == [
        ("base", 2),
        ("fast", 2),
        ("base", 4),
        ("fast", 4),
    ]
    assert [row["seconds"] for row in rows] == [4.0, 1.0, 8.0, 2.0]
    assert [row["ratio"] for row in rows] == [1.0, 0.25, 1.0, 0.25]
    assert {row["rounds"] for row in rows} == {3}


def test_the_ratio_is_of_minima_and_the_range_is_of_rounds(track, clock):
    paces = {"base": iter([1, 1, 2, 1, 4]), "other": iter([1, 1, 6, 3, 4])}

    def build(name):
        def work():
            clock.now += next(paces[name])

        return Contestant(name, lambda size: work)

    rows = by_contestant(track.run(track.benchmark(build("base"), build("other"), sizes=[SMALL])), SMALL)
    assert rows["other"]["ratio"] == 3.0
    assert rows["other"]["ratio_by_round"] == [1.0, 3.0]


def test_peak_memory_is_measured_apart_and_has_its_own_ratio(track):
    peaks = {"base": 200, "lean": 50}
    rows = track.run(
        track.benchmark(track.contestant("base", 1.0), track.contestant("lean", 1.0), sizes=[SMALL]),
        peak=lambda benchmark, contestant, size: peaks[contestant.name],
    )
    assert [(row["peak_bytes"], row["peak_ratio"]) for row in rows] == [(200, 1.0), (50, 0.25)]


def test_without_a_way_to_measure_memory_the_time_still_counts(track):
    benchmark = track.benchmark(track.contestant("base", 1.0), sizes=[SMALL])
    (row,) = track.run(benchmark, peak=lambda *_: None)
    assert (row["ratio"], row["peak_bytes"], row["peak_ratio"]) == (1.0, None, None)


def test_rows_say_under_which_conditions_they_were_measured(track):
    (row,) = track.run(track.benchmark(track.contestant("base", 1.0), sizes=[SMALL]))
    assert row["threads"] == 1
    assert row["versions"].keys() == {"code", "python", "attangent", "torch", "numpy"}
    assert row["cpu"]
    assert row["date"].count("-") == 2


def refuse(size):
    raise Unavailable("needs a GPU")


def import_missing(size):
    import missing_peer  # noqa: F401  # pyright: ignore[reportMissingImports]


@pytest.mark.parametrize(
    ("build", "why"), [(refuse, "needs a GPU"), (import_missing, "No module named 'missing_peer'")]
)
def test_an_unavailable_contestant_gets_a_row_that_says_why(track, build, why):
    rows = by_contestant(
        track.run(track.benchmark(track.contestant("base", 1.0), Contestant("peer", build))), LARGE
    )
    assert rows["peer"]["unavailable"] == why
    assert (rows["peer"]["ratio"], rows["peer"]["seconds"], rows["peer"]["rounds"]) == (None, None, 0)
    assert rows["base"]["unavailable"] is None
    assert rows["base"]["ratio"] == 1.0


def test_who_dies_while_memory_is_measured_is_not_timed(track):
    def peak(benchmark, contestant, size):
        if contestant.name == "greedy":
            raise Unavailable("its process was ended by signal 9")
        return 100

    benchmark = track.benchmark(track.contestant("base", 1.0), track.contestant("greedy", 1.0), sizes=[SMALL])
    rows = by_contestant(track.run(benchmark, peak=peak), SMALL)
    assert rows["greedy"]["unavailable"] == "its process was ended by signal 9"
    assert rows["greedy"]["seconds"] is None


def lapping(track, name, pauses, order=None):
    """Calls of two laps of a second each, before each of which there may be a pause."""
    remaining = iter(pauses)

    def build(size):
        def work():
            for lap in range(2):
                if order is not None:
                    order.append((name, lap))
                track.clock.now += 1.0 + next(remaining, 0.0)
                yield lap

        return work

    return Contestant(name, build, same_work=False, in_laps=True)


def test_the_fastest_of_work_in_laps_has_each_lap_at_its_fastest(track):
    disturbed = lapping(track, "disturbed", [3.0, 0.0, 0.0, 9.0, 0.0, 5.0, 2.0, 0.0])
    benchmark = track.benchmark(disturbed, lapping(track, "steady", []), sizes=[SMALL])
    rows = by_contestant(track.run(benchmark), SMALL)
    assert rows["disturbed"]["seconds"] == 2.0
    assert rows["disturbed"]["rounds"] == 3
    assert rows["steady"]["ratio"] == 1.0
    assert rows["steady"]["ratio_by_round"] == pytest.approx([2 / 11, 0.5])


def test_laps_alternate_and_every_contestant_goes_first_in_turn(track):
    order = []
    pair = [lapping(track, name, [], order) for name in "AB"]
    track.run(track.benchmark(*pair, sizes=[SMALL]))
    warm, raced = order[:4], order[4:]
    assert warm == [("A", 0), ("A", 1), ("B", 0), ("B", 1)]
    assert raced[:8] == [
        *(("A", 0), ("B", 0), ("B", 1), ("A", 1)),
        *(("B", 0), ("A", 0), ("A", 1), ("B", 1)),
    ]
    assert len(raced) == 3 * 4


def test_laps_and_whole_calls_are_not_compared(track):
    with pytest.raises(AttangentError, match="with and without laps"):
        track.benchmark(lapping(track, "laps", []), track.contestant("whole", 1.0))


def test_memory_is_that_of_all_laps(track):
    assert lapping(track, "A", []).whole(SMALL)() == [0, 1]
    assert track.contestant("B", 1.0).whole(SMALL)().tolist() == [1.0, 1.0]


def test_without_a_baseline_there_are_seconds_but_no_ratios(track):
    benchmark = track.benchmark(Contestant("base", refuse), track.contestant("ours", 1.0), sizes=[SMALL])
    ours = by_contestant(track.run(benchmark), SMALL)["ours"]
    assert (ours["seconds"], ours["ratio"], ours["ratio_by_round"]) == (2.0, None, None)


def ones(size):
    return torch.ones(size["n"])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (1.0 + 1e-6, r"wrong in benchmark toy at n=2 is 9.5e-07 off the reference, expected at most 1e-09"),
        (float("nan"), r"wrong in benchmark toy at n=2 is nan off"),
    ],
)
def test_a_contestant_that_disagrees_with_the_reference_stops_the_benchmark(track, answer, message):
    benchmark = track.benchmark(
        track.contestant("base", 1.0), track.contestant("wrong", 1.0, answer), reference=ones
    )
    with pytest.raises(Disagreement, match=message):
        track.run(benchmark)


def test_an_answer_of_another_shape_disagrees(track):
    benchmark = track.benchmark(track.contestant("base", 1.0), reference=lambda size: torch.ones(1))
    with pytest.raises(Disagreement, match=r"gives shape \(2,\), the reference \(1,\)"):
        track.run(benchmark)


def test_tolerance_is_the_benchmarks_own(track):
    near = track.contestant("base", 1.0, 1.0 + 1e-6)
    assert track.run(track.benchmark(near, reference=ones, tolerance=1e-5))


def test_a_yardstick_of_other_work_is_not_checked(track):
    yardstick = track.contestant("base", 1.0, answer=5.0, same_work=False)
    assert track.run(track.benchmark(yardstick, track.contestant("ours", 1.0), reference=ones))


def served(body):
    script = f"from benchmarks.harness.child import serve\nserve(lambda: {body}, lambda: {{'peer': '2'}})"
    return lambda size: [sys.executable, "-c", script]


def test_an_outside_contestant_is_checked_timed_and_reports_its_versions(track):
    peer = Outside("peer", served("lambda: [1.0, 1.0]"))
    benchmark = track.benchmark(track.contestant("base", 1.0), peer, sizes=[SMALL], reference=ones)
    row = by_contestant(run(benchmark, Effort(2, 1e-4), track.instruments), SMALL)["peer"]
    assert row["rounds"] == 2
    assert row["seconds"] > 0
    assert row["versions"] == {"peer": "2"}


def test_an_outside_contestant_can_disagree(track):
    peer = Outside("peer", served("lambda: [1.0, 2.0]"))
    with pytest.raises(Disagreement, match="peer in benchmark toy"):
        track.run(track.benchmark(track.contestant("base", 1.0), peer, sizes=[SMALL], reference=ones))


def test_an_outside_contestant_that_is_not_installed_gets_a_row(track):
    peer = Outside("peer", lambda size: ["/no/such/python"])
    rows = track.run(track.benchmark(track.contestant("base", 1.0), peer, sizes=[SMALL]))
    assert rows[1]["unavailable"].startswith("cannot start /no/such/python")


def test_ticks_are_as_many_as_announced(track):
    steps = []
    benchmark = track.benchmark(track.contestant("base", 1.0), track.contestant("ours", 1.0))
    track.run(benchmark, tick=steps.append)
    assert len(steps) == step_count(benchmark, EFFORT)
    assert steps[0] == "n=2: base, memory"


@pytest.mark.parametrize(
    ("goal", "measured"),
    [
        (Goal("ours", "base", LARGE, at_most=0.5), 0.25),
        (Goal("base", "ours", LARGE, at_most=0.5), 4.0),
        (Goal("ours", "ours", LARGE, at_most=1.2, against_size=SMALL), 2.0),
        (Goal("ours", "ours", LARGE, at_most=1.2, against_size=SMALL, of="peak_bytes"), 2.0),
        (Goal("peer", "base", LARGE, at_most=0.5), None),
    ],
)
def test_goals_are_measured_across_contestants_and_sizes(track, goal, measured):
    contestants = track.contestant("base", 2.0), track.contestant("ours", 0.5), Contestant("peer", refuse)
    rows = track.run(track.benchmark(*contestants, goals=[goal]))
    assert goal.verdict("toy", rows)["measured"] == measured


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"baseline": "nobody"}, "names 'nobody', expected one of base"),
        ({"sizes": []}, "needs a size"),
        ({"contestants": [Contestant("base", refuse)] * 2}, "distinct names: base, base"),
        ({"goals": [Goal("nobody", "base", SMALL, 1.0)]}, "names 'nobody'"),
        ({"goals": [Goal("base", "base", {"n": 9}, 1.0)]}, "a size it does not run"),
    ],
)
def test_a_benchmark_that_makes_no_sense_is_refused_on_creation(changes, message):
    given = {"name": "toy", "about": "", "sizes": [SMALL], "baseline": "base"}
    with pytest.raises(AttangentError, match=message):
        Benchmark(**(given | {"contestants": [Contestant("base", refuse)]} | changes))


def test_label_reads_as_the_sizes():
    assert label({"n": 64, "d": 16}) == "n=64 d=16"
