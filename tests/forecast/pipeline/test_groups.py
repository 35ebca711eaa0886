import numpy as np
import pytest

from attangent import AttangentError
from attangent._core.progress import Bars
from attangent.forecast.data.calendar import DAY, TimeStep
from attangent.forecast.data.series import SeriesColumns, SeriesSet
from attangent.forecast.pipeline import groups
from attangent.forecast.pipeline.combination import PanelRequest
from attangent.forecast.pipeline.groups import (
    SeriesGroup,
    Workers,
    choose_period,
    clear,
    forecast_groups,
    in_groups,
    mean_errors,
)

SERIES = [10 + np.random.default_rng(k).normal(size=20 + k % 7) for k in range(11)]
SET = SeriesSet(list(range(11)), SERIES, [0] * 11, TimeStep("number", 1), SeriesColumns())
REQUEST = PanelRequest(3, 4, (0.1, 0.9))


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    monkeypatch.setattr(groups, "MOST_SERIES", 4)


def assert_same(one, other):
    for (a, first), (b, second) in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(first.forecasts, second.forecasts)
        np.testing.assert_array_equal(first.quantiles, second.quantiles)


def test_every_series_is_in_one_group_and_long_ones_in_smaller_groups(monkeypatch):
    assert sorted(np.concatenate(in_groups(SERIES))) == list(range(11))
    assert [len(group) for group in in_groups(SERIES)] == [4, 4, 3]
    monkeypatch.setattr(groups, "MOST_VALUES", 50)
    assert len(in_groups(SERIES)[0]) == 1


def test_workers_give_the_same():
    assert_same(forecast_groups(SET, REQUEST, Workers()), forecast_groups(SET, REQUEST, Workers(jobs=2)))


def test_a_cluster_gives_the_same():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        found = forecast_groups(SET, REQUEST, Workers(dask=cluster.scheduler_address))
    assert_same(found, forecast_groups(SET, REQUEST, Workers()))


def test_a_killed_run_goes_on(tmp_path, monkeypatch):
    done = []
    usual = SeriesGroup.forecast

    def dies_in_the_third(self):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(1)
        return usual(self)

    folder = tmp_path / "parts"
    monkeypatch.setattr(SeriesGroup, "forecast", dies_in_the_third)
    with pytest.raises(KeyboardInterrupt):
        forecast_groups(SET, REQUEST, Workers(folder=folder))
    assert len(list(folder.glob("*.npz"))) == 2
    seen = []
    monkeypatch.setattr(SeriesGroup, "forecast", lambda self: seen.append(1) or usual(self))
    shown = []
    bars = Bars(quiet=True)
    bars.show = lambda name, done, total, note: shown.append((done, total))
    again = forecast_groups(SET, REQUEST, Workers(folder=folder, bars=bars))
    assert len(seen) == 1
    assert shown == [(2, 3), (3, 3)]
    assert_same(again, forecast_groups(SET, REQUEST, Workers()))
    clear(folder)
    assert not folder.exists()


def test_other_questions_and_broken_files_are_computed_again(tmp_path):
    forecast_groups(SET, REQUEST, Workers(folder=tmp_path))
    next(iter(tmp_path.glob("*.npz"))).write_bytes(b"half")
    assert_same(
        forecast_groups(SET, REQUEST, Workers(folder=tmp_path)), forecast_groups(SET, REQUEST, Workers())
    )
    forecast_groups(SET, PanelRequest(2, 4, (), "theta"), Workers(folder=tmp_path))
    assert len(list(tmp_path.glob("*.npz"))) == 6


def test_a_cluster_that_is_not_there():
    pytest.importorskip("distributed")
    with pytest.raises(AttangentError, match="no Dask scheduler answers at 'nowhere'"):
        forecast_groups(SET, REQUEST, Workers(dask="nowhere"))


def test_a_group_at_which_processes_always_die_is_named(monkeypatch):
    monkeypatch.setattr(groups, "in_processes", lambda work, parts, jobs, died: iter([(0, died(parts[0]))]))
    with pytest.raises(AttangentError, match="forecast a group of 4 series died 3 times"):
        forecast_groups(SET, REQUEST, Workers(jobs=2))


def test_results_that_come_in_any_order_are_put_in_order(monkeypatch):
    def backwards(work, parts, jobs, died):
        return iter([(k, work(parts[k])) for k in reversed(range(len(parts)))])

    monkeypatch.setattr(groups, "in_processes", backwards)
    assert_same(forecast_groups(SET, REQUEST, Workers(jobs=2)), forecast_groups(SET, REQUEST, Workers()))


def test_errors_of_all_groups():
    found = forecast_groups(SET, REQUEST, Workers())
    errors = mean_errors(found)
    sizes = [len(group) for group, _ in found]
    expected = np.average([one.errors["theta"] for _, one in found], weights=sizes)
    assert errors["theta"] == pytest.approx(expected)


WEEK = TimeStep("fixed", 7 * DAY)
SIX_HOURS = TimeStep("fixed", DAY // 4)


def walks(count, times):
    return 100 + np.cumsum(np.random.default_rng(0).normal(size=(count, times)), axis=1)


def test_weeks_with_a_year_and_without():
    year = 20 * np.sin(2 * np.pi * np.arange(200) / 52)
    assert choose_period(list(walks(6, 200) + year), WEEK, 8) == 52
    assert choose_period(list(walks(20, 200)), WEEK, 8) == 1


def test_hours_that_repeat_by_the_week():
    profile = np.random.default_rng(1).normal(0, 10, 28)
    noise = np.random.default_rng(0).normal(size=(4, 280))
    assert choose_period(list(50 + np.tile(profile, 10) + noise), SIX_HOURS, 8) == 28
    assert choose_period(list(50 + np.tile(profile[:4], 70) + noise), SIX_HOURS, 8) == 4


@pytest.mark.parametrize(("step", "period"), [(WEEK, 1), (SIX_HOURS, 4), (TimeStep("months", 1), 12)])
def test_short_series_take_the_period_that_they_hold_twice(step, period):
    assert choose_period([np.arange(30.0)] * 3, step, 4) == period
