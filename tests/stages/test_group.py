"""One group: stages with their intervals, start-up, recoveries, runs that go on, long logs."""

import numpy as np
import pytest

from attangent.stages.group import FEWEST, examine

STEPS = np.arange(160)


def logistic(middle, width=5.0, steps=STEPS):
    return 1 / (1 + np.exp((steps - middle) / width))


def noisy(losses, noise=0.03, seed=0):
    return losses + noise * np.random.default_rng(seed).normal(size=len(losses))


def test_two_stages_with_intervals_levels_and_shares():
    group = examine("a", STEPS, noisy(1 + 2 * logistic(45) + logistic(110)))
    first, second = group.stages
    for stage, middle, before, after in ((first, 45, 4, 2), (second, 110, 2, 1)):
        low, high = stage.onset_interval
        assert low <= stage.onset <= high
        assert stage.onset == pytest.approx(middle - 11, abs=2)
        assert stage.completion == pytest.approx(middle + 11, abs=2)
        assert stage.completion_interval[0] <= stage.completion <= stage.completion_interval[1]
        assert stage.plateau == pytest.approx(before, abs=0.1)
        assert stage.level == pytest.approx(after, abs=0.1)
    assert (first.share, second.share) == pytest.approx((2 / 3, 1 / 3), abs=0.05)
    assert group.startup < 0.05
    assert group.noise == pytest.approx(0.03, rel=0.3)


@pytest.mark.parametrize(
    "early", [np.exp(-STEPS / 6), np.exp(-((STEPS / 12) ** 2))], ids=["decay", "warm-up"]
)
def test_start_up_is_no_stage(early):
    group = examine("a", STEPS, noisy(1 + 3 * early + logistic(100)))
    assert [stage.onset for stage in group.stages] == pytest.approx([89], abs=3)
    assert 0.5 < group.startup < 0.9
    assert group.begins == (0.0, 0.0)


def test_a_spike_and_its_recovery_are_no_stage():
    spike = np.where(STEPS >= 80, np.exp(-(STEPS - 80) / 8), 0.0)
    group = examine("a", STEPS, noisy(1 + logistic(40) + 1.5 * spike))
    assert [stage.onset for stage in group.stages] == pytest.approx([29], abs=3)


def test_a_fall_that_goes_on_is_not_complete():
    (stage,) = examine("a", STEPS, noisy(np.interp(STEPS, [0, 100, 250], [2.0, 2.0, 0.0]))).stages
    assert stage.completion is None
    assert stage.completion_interval is None


def test_unevenly_spaced_steps():
    steps = np.unique(np.geomspace(1, 10_000, 200).round())
    group = examine("a", steps, noisy(1 + logistic(1000, 80.0, steps)))
    assert [stage.onset for stage in group.stages] == pytest.approx([824], rel=0.06)
    decay = examine("a", steps, noisy(1 + 3 * np.exp(-steps / 900)))
    assert decay.stages == ()
    assert decay.startup == 1.0


def test_long_logs_are_averaged():
    steps = np.arange(4000)
    group = examine("a", steps, noisy(1 + logistic(2000, 60.0, steps), 0.3))
    assert group.readings == 4000
    assert [stage.onset for stage in group.stages] == pytest.approx([1868], abs=60)


def test_few_or_equal_readings_say_nothing():
    assert examine("a", range(FEWEST - 1), [1.0] * (FEWEST - 1)).level is None
    flat = examine("a", range(50), [2.0] * 50)
    assert (flat.stages, flat.startup, flat.begins) == ((), 0.0, None)
    assert flat.level == pytest.approx(2)
    zero = examine("a", range(50), [0.0] * 50)
    assert zero.stages == ()


def test_losses_of_any_size():
    for scale in (1e-9, 1e9):
        (stage,) = examine("a", STEPS, scale * noisy(1 + logistic(80))).stages
        assert stage.onset == pytest.approx(69, abs=2)
        assert stage.plateau == pytest.approx(2 * scale, rel=0.05)


def test_a_bend_in_the_start_up_is_no_stage():
    """Two rates of decay with a bend between them fall without a plateau; after one, the same fall counts."""
    steps = np.arange(150.0)
    noise = 0.004 * np.random.default_rng(0).normal(size=150)
    fast, slow = np.clip(1 - steps / 8, 0, 1), np.clip(1 - (steps - 8) / 12, 0, 1)
    bent = examine("a", steps, 2 + 1.5 * fast + 0.6 * slow + noise)
    assert bent.stages == ()
    assert bent.startup > 0.9
    later = np.clip(1 - (steps - 60) / 12, 0, 1)
    (stage,) = examine("a", steps, 2 + 1.5 * fast + 0.6 * later + noise).stages
    assert stage.onset == pytest.approx(61.2, abs=3)
