"""Planned beside real: the figures of the tables, on runs made up by hand."""

from dataclasses import replace

import pytest

from benchmarks.planning.groups import Group, Pair, Whole
from benchmarks.planning.picture import picture
from benchmarks.planning.table import summary, table, whole_table
from tests.tuning.planning.runs import planned


def pair(rate, score, *real, method="ntk", departure=0.1, loss=1.0, **own):
    sure = departure <= 0.4
    run = planned(method, rate, score, 0.01, departure=departure, loss_sure=sure, score_sure=sure, **own)
    return Pair(run, [{"losses": [loss, loss], "accuracy": one, "cpu_seconds": 10.0} for one in real])


def group_of(method, pairs, seconds):
    return Group("bank", method, [one.planned for one in pairs], pairs, [], seconds, 300.0)


@pytest.fixture
def group():
    pairs = [pair(10.0**-place, 0.8 + 0.01 * place, 0.79 + 0.01 * place) for place in range(7)]
    pairs[1] = replace(pairs[1], planned=replace(pairs[1].planned, default=True))
    return group_of("ntk", [*pairs, pair(9.0, 0.5, 0.9, departure=2.0, loss=9.0)], 16.0)


def test_what_a_group_of_runs_comes_to(group):
    assert [round(off, 3) for off in group.sure_losses] == [0.1] * 7
    assert group.sure_scores == pytest.approx([1.0] * 7)
    assert group.chosen.planned.score == pytest.approx(0.86)
    assert group.default.planned.learning_rate == pytest.approx(0.1)
    assert group.best == pytest.approx(0.9)
    assert group.cost == pytest.approx(0.2)
    assert group.silent == 7  # each is off by ten per cent and was not marked
    assert group.rank == pytest.approx(1 / 3)


def test_runs_of_two_seeds_are_judged_by_their_mean():
    twice = pair(1e-3, 0.8, 0.7, 0.9)
    assert twice.accuracy == pytest.approx(0.8)
    assert twice.score_off == pytest.approx(10.0)  # the plan is for the first seed
    assert "two seeds of a run: 20.0 points apart on the mean, at most 20.0" in summary(
        [group_of("ntk", [twice], 1)]
    )


def test_the_plan_of_all_methods_makes_two_runs_and_takes_the_better(group):
    lora = group_of("lora", [pair(1e-3, 0.6, 0.95, method="lora", default=True)] * 8, 8.0)
    head = group_of("head", [pair(1e-2, 0.7, 0.7, method="head", departure=0.0, default=True)] * 8, 4.0)
    whole = Whole([group, lora, head])
    assert whole.taken.planned.method == "lora"
    assert whole.without_trials.planned.method == "ntk"
    assert whole.default.accuracy == pytest.approx(0.80)
    assert whole.cost == pytest.approx((16 + 8 + 4 + 20) / 240)
    assert (
        "| bank | 0.800 | 0.850 | 0.950 | 0.950 | lora 0.001 for 4 | 0.600 (0.590 to 0.610) | 0.20 |"
        in whole_table([whole])
    )


def test_the_table_and_the_picture(group, tmp_path):
    assert "| bank | ntk | 7 of 8 | 10.0 % | 7 | 5.9 | " in table([group])
    assert "| 0.33 | 0.800 | 0.850 | 0.900 | 0.20 |" in table([group])
    told = summary([group])
    assert "sure of 7 of 8 runs, 7 of them off by more than 5 %, 10.0 % on the mean" in told
    assert "0 of 1 within a point of the best, 5.0 points below it on the mean; tune's own: 0, 10.0" in told
    assert "16 s of CPU in place of 80 s" in told
    picture([group], tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 1000
