"""What the bars say of runs."""

import pytest

from benchmarks.suites.tuning.comparison import read_runs
from benchmarks.suites.tuning.verdict import (
    DEFAULT,
    accuracies,
    differences,
    kept_with,
    over_tasks,
    report,
    verdict,
    with_default,
)


def runs(task, entrant, values):
    return [
        {"task": task, "entrant": entrant, "seed": seed, "test": {"accuracy": value}}
        for seed, value in enumerate(values)
    ]


AHEAD = [*runs("a 300", "ntk", (0.8, 0.82, 0.81)), *runs("a 300", "lora r=8", (0.7, 0.71, 0.72))]
BEHIND = [*runs("b 300", "ntk", (0.5, 0.52, 0.51)), *runs("b 300", "lora r=8", (0.52, 0.53, 0.54))]


def test_differences_are_paired_by_split():
    found = differences(accuracies(AHEAD[:-1]), "ntk", "lora r=8")["a 300"]
    assert (found.mean, found.splits) == (pytest.approx(0.105), 2)
    assert found.error == pytest.approx(0.005)


def test_one_split_has_no_standard_error():
    assert differences(accuracies([AHEAD[0], AHEAD[3]]), "ntk", "lora r=8") == {}


def test_the_bar_is_two_standard_errors_and_no_task_behind():
    ahead, both = (differences(accuracies(given), "ntk", "lora r=8") for given in (AHEAD, AHEAD + BEHIND))
    assert verdict(ahead).endswith(": ahead by two standard errors; behind by more than one: no task")
    assert verdict(both).endswith("behind by more than one: b 300")
    assert "not ahead" in verdict({"b 300": both["b 300"]})
    assert over_tasks(list(both.values())).mean == pytest.approx((0.1 - 0.02) / 2)


def test_a_state_of_a_quarter_is_judged_by_task():
    small = [
        *runs("a 300", "ntk, a quarter", (0.7, 0.72, 0.71)),
        *runs("b 300", "ntk, a quarter", (0.1, 0.1, 0.1)),
    ]
    said = report(AHEAD + BEHIND + small).splitlines()
    assert said[-1] == "300 examples, a quarter of LoRA's numbers is as good on 1 of 2"
    assert said[2].startswith("| a 300 | 0.810 ± 0.010 | 0.710 ± 0.010 |")


def test_the_default_is_rslora_on_images_and_a_state_elsewhere():
    images = [*runs("digits 300", "ntk", (0.1, 0.1)), *runs("digits 300", "rslora", (0.9, 0.9))]
    found = with_default(accuracies([*AHEAD, *images, *runs("a 300", "rslora", (0.7,))]))
    assert found["digits 300", DEFAULT, 0] == 0.9
    assert found["a 300", DEFAULT, 0] == 0.8


def test_runs_are_kept_once_each_the_last_in_place_of_the_first(tmp_path):
    kept = tmp_path / "kept.jsonl"
    kept_with([{**run, "validation": {}} for run in AHEAD], kept)
    again = kept_with(runs("a 300", "ntk", (0.1,)), kept)
    assert read_runs(kept) == again
    assert len(again) == len(AHEAD)
    assert accuracies(again)["a 300", "ntk", 0] == 0.1
    assert set(again[0]) == {"task", "entrant", "seed", "test"}
