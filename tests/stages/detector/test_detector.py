"""Stages in curves whose turns are known: through noise, warm-up and drift."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attangent import AttangentError
from attangent.stages import StageDetector


def fall(steps, start, end, high=2.0, low=0.0):
    """`high`, then straight down to `low` between start and end."""
    return np.interp(steps, [start, end], [high, low])


def fed(detector, steps, **curves):
    events = []
    for place, step in enumerate(steps):
        events += detector.update(step, {name: curve[place] for name, curve in curves.items()})
    return events


def stage(detector, name):
    return next(stage for stage in detector.stages if stage.name == name)


@settings(max_examples=25)
@given(
    start=st.integers(20, 80),
    length=st.integers(20, 80),
    later=st.integers(20, 100),
    noise=st.floats(0, 0.1),
    seed=st.integers(0, 1000),
)
def test_two_falls_are_found_in_order_and_dated(start, length, later, noise, seed):
    steps = np.arange(280)
    random = np.random.default_rng(seed)
    curves = {
        name: fall(steps, at, at + length) + noise * random.normal(size=len(steps))
        for name, at in (("hard", start + later), ("easy", start))
    }
    detector = StageDetector(curves)
    events = fed(detector, steps, **curves)
    assert detector.order == ("easy", "hard")
    assert [event.name for event in events if event.kind == "onset"] == ["easy", "hard"]
    slack = 4 + 4 * noise * length
    for name, at in (("easy", start), ("hard", start + later)):
        found = stage(detector, name)
        assert found.plateau == pytest.approx(2, abs=0.01 + 4 * noise)
        assert found.onset == pytest.approx(at + 0.1 * length, abs=slack)
        assert found.completion == pytest.approx(at + 0.9 * length, abs=slack)


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.3])
def test_noise_on_a_plateau_is_no_stage(noise):
    for seed in range(8):
        losses = 2 + noise * np.random.default_rng(seed).normal(size=600)
        detector = StageDetector(["a"], window=9)
        assert fed(detector, range(600), a=losses) == []
        assert stage(detector, "a").onset is None


def test_single_outliers_are_no_stage():
    losses = np.full(200, 2.0)
    losses[::10] = 0.0
    assert fed(StageDetector(["a"]), range(200), a=losses) == []


def test_the_fall_of_warm_up_is_not_the_onset():
    steps = np.arange(200)
    curve = np.interp(steps, [0, 10, 100, 150], [4.0, 2.0, 2.0, 0.0])
    early = StageDetector(["a"])
    fed(early, steps, a=curve)
    assert stage(early, "a").onset < 10
    late = StageDetector(["a"], warmup=10)
    fed(late, steps, a=curve)
    assert stage(late, "a").plateau == 2.0
    assert stage(late, "a").onset == pytest.approx(105, abs=2)


def test_a_loss_that_rises_first_is_measured_from_its_top():
    steps = np.arange(200)
    curve = np.interp(steps, [0, 40, 100, 150], [2.0, 3.0, 3.0, 0.0])
    detector = StageDetector(["a"])
    fed(detector, steps, a=curve)
    assert stage(detector, "a").plateau == 3.0
    assert stage(detector, "a").onset == pytest.approx(105, abs=2)


def test_a_loss_that_levels_off_is_over_where_it_does():
    steps = np.arange(200)
    curve = fall(steps, 50, 90, low=1.0)
    detector = StageDetector(["a"])
    events = fed(detector, steps, a=curve)
    assert [event.kind for event in events] == ["onset", "completion"]
    assert stage(detector, "a").completion == pytest.approx(86, abs=2)
    known = StageDetector(["a"], floors={"a": 1.0})
    fed(known, steps[:100], a=curve)
    assert stage(known, "a").completion == pytest.approx(86, abs=2)


def test_a_fall_that_goes_on_is_not_over():
    detector = StageDetector(["a"])
    fed(detector, np.arange(120), a=fall(np.arange(120), 50, 250))
    assert stage(detector, "a").onset is not None
    assert stage(detector, "a").completion is None
    assert "still falling" in detector.summary()


def test_groups_may_be_read_at_different_steps():
    detector = StageDetector(["a", "b"], window=3)
    for step in range(60):
        detector.update(step, {"a": max(0.0, 2 - step / 10)})
        if step % 3 == 0:
            detector.update(step, {"b": 1.0})
    assert detector.order == ("a",)
    assert detector.readings.groupby("group").size().to_dict() == {"a": 60, "b": 20}
    assert "b: on its plateau of 1" in detector.summary()
    assert "too few readings" in StageDetector(["c"]).summary()


def test_events_read_as_sentences():
    detector = StageDetector(["syntax"], window=1, patience=1)
    events = fed(detector, range(4), syntax=[2.0, 1.0, 0.1, 0.0])
    assert [str(event) for event in events] == [
        "syntax begins to fall at step 1",
        "syntax has fallen at step 2",
    ]


WRONG = {
    "no groups": lambda: StageDetector([]),
    "twice": lambda: StageDetector(["a", "a"]),
    "floors": lambda: StageDetector(["a"], floors={"b": 1.0}),
    "window": lambda: StageDetector(["a"], window=0),
    "shares": lambda: StageDetector(["a"], drop=0.9, done=0.5),
    "settle": lambda: StageDetector(["a"], settle=2),
    "group": lambda: StageDetector(["a"]).update(0, {"b": 1.0}),
    "nan": lambda: StageDetector(["a"]).update(0, {"a": float("nan")}),
    "steps": lambda: fed(StageDetector(["a"]), [1, 1], a=[1.0, 1.0]),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_wrong_input_is_refused(wrong):
    with pytest.raises(AttangentError):
        wrong()


def test_a_refused_reading_leaves_no_trace():
    detector = StageDetector(["a", "b"])
    with pytest.raises(AttangentError, match="loss of b"):
        detector.update(0, {"a": 1.0, "b": float("inf")})
    assert detector.readings.empty
