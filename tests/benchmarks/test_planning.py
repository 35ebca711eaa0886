"""Planned beside real: the figures of the table, on runs made up by hand."""

import pytest

from attangent.tuning.planning.plan import PlannedRun
from benchmarks.planning.table import Group, Pair, picture, table


def pair(rate, planned, real, departure=0.1, loss=1.0):
    run = PlannedRun(
        *("ntk", rate, 4.0, 10, 1.1, (1.2, 1.0), 0.5, planned, planned - 0.01, planned + 0.01),
        *(departure, departure <= 0.4, 0, 5.0, 100.0),
    )
    return Pair(run, {"losses": [loss, loss], "accuracy": real, "cpu_seconds": 10.0})


@pytest.fixture
def group():
    pairs = [pair(10.0**-place, 0.8 + 0.01 * place, 0.79 + 0.01 * place) for place in range(7)]
    return Group("bank", "ntk", [*pairs, pair(9.0, 0.5, 0.9, departure=2.0, loss=9.0)], 16.0, 300.0)


def test_what_a_group_of_runs_comes_to(group):
    assert [round(one.loss_off, 3) for one in group.following] == [0.1] * 7
    assert group.following[0].score_off == pytest.approx(1.0)
    assert group.chosen.planned.score == pytest.approx(0.86)
    assert group.lost == pytest.approx(100 * (0.9 - 0.85))
    assert group.cost == pytest.approx(0.2)
    assert group.silent == 7  # each is off by ten per cent and was not marked
    assert group.rank == pytest.approx(1 / 3)


def test_the_table_and_the_picture(group, tmp_path):
    assert "| bank | ntk | 8 | 7 | 10.0 % | 1.0 |" in table([group])
    picture([group], tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 1000
