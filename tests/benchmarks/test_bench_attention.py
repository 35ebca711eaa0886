import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.suites.attention.bench_attention import (
    BENCHMARKS,
    authors_forward,
    break_even,
    flops,
    matrix_product,
    ntk_for_prefix,
    prefix_forward,
)

FORWARD, TRAINING, RATES, CURVE = BENCHMARKS
TINY = {"L": 5}


def test_contestants_of_the_same_work_agree_with_the_reference():
    for benchmark in (FORWARD, TRAINING):
        expected = benchmark.reference(TINY)
        for contestant in benchmark.contestants:
            if contestant.same_work:
                gap = (contestant.build(TINY)().double() - expected).abs().max() / expected.abs().max()
                assert gap < benchmark.tolerance


def test_baseline_has_no_prefix_and_does_other_work():
    for benchmark in (FORWARD, TRAINING):
        plain = benchmark.contestant(benchmark.baseline)
        assert not plain.same_work
        assert not torch.allclose(plain.build(TINY)().double(), benchmark.reference(TINY), rtol=0.05)


def test_both_ways_to_have_a_prefix_have_the_same_shape():
    assert ntk_for_prefix({"m": 3})().shape == prefix_forward({"m": 3})().shape == (1, 8, 256, 64)


def counted(work):
    with FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


def test_flops_are_those_that_torch_counts():
    masses = 2 * 8 * 256 * 64  # phi(q) k, which `flops` leaves out
    assert counted(authors_forward({"L": 256})) - masses == flops(256)
    assert abs(counted(matrix_product({"L": 256})) - flops(256)) <= 2048**2


def test_break_even_is_the_shortest_prefix_that_is_slower():
    rows = [
        {"contestant": "prefix attention", "size": {"m": m}, "ratio": ratio}
        for m, ratio in ((1, 0.9), (16, 1.1), (64, 1.5))
    ]
    assert break_even([*rows, {"contestant": "ntk_attention", "size": {"m": 1}, "ratio": 1.0}]) == 16
    assert break_even(rows[:1]) is None


def test_goals_are_those_of_the_design():
    bars = {(g.of, g.size["L"], g.against): g.at_most for g in FORWARD.goals}
    found = [bars["seconds", size["L"], "sdpa, no prefix"] for size in FORWARD.sizes]
    assert found == [2.0, 1.5, 1.3, 1.2, 1.08, 1.0]
    assert bars["seconds", 1024, "authors' formula"] == 0.25
    assert CURVE.goals[0].at_most == 1 / 30
    assert {goal.at_most for goal in RATES.goals} == {1 / 0.6}
    assert [goal.at_most for goal in TRAINING.goals[:3]] == [1.5, 1.2, 1.0]
