"""Planned beside real: the figures of the table, on runs made up by hand."""

import pytest

from attangent.tuning.planning.plan import PlannedRun
from benchmarks.planning.table import Group, Pair, picture, summary, table


def pair(rate, planned, real, departure=0.1, loss=1.0):
    run = PlannedRun(
        *("ntk", rate, 4.0, 10, 1.1, (1.2, 1.0), 0.5, planned, planned - 0.01, planned + 0.01),
        *(departure, departure <= 0.4, departure <= 0.4, 0, 5.0, 100.0),
    )
    return Pair(run, {"losses": [loss, loss], "accuracy": real, "cpu_seconds": 10.0})


@pytest.fixture
def group():
    pairs = [pair(10.0**-place, 0.8 + 0.01 * place, 0.79 + 0.01 * place) for place in range(7)]
    return Group("bank", "ntk", [*pairs, pair(9.0, 0.5, 0.9, departure=2.0, loss=9.0)], 16.0, 300.0)


def test_what_a_group_of_runs_comes_to(group):
    assert [round(off, 3) for off in group.sure_losses] == [0.1] * 7
    assert group.sure_scores == pytest.approx([1.0] * 7)
    assert group.chosen.planned.score == pytest.approx(0.86)
    assert group.lost == pytest.approx(100 * (0.9 - 0.85))
    assert group.cost == pytest.approx(0.2)
    assert group.silent == 7  # each is off by ten per cent and was not marked
    assert group.rank == pytest.approx(1 / 3)


def test_the_table_and_the_picture(group, tmp_path):
    assert "| bank | ntk | 8 | 7 | 10.0 % | 7 | 5.9 | " in table([group])
    told = summary([group])
    assert "sure of 7 of 8 runs, 7 of them off by more than 5 %, 10.0 % on the mean" in told
    assert "bank ntk 5.0" in told
    assert "16 s of CPU in place of 80 s" in told
    picture([group], tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 1000
