"""The trainer: checkpoints, the order of examples, progress."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attangent.tuning import trainer as module
from attangent.tuning.folders.export import remove_checkpoints
from attangent.tuning.trainer import SeededOrder, TrainingProgress, last_complete_checkpoint

PARTS = ("trained.safetensors", "loss.json", "optimizer.pt", "scheduler.pt", "trainer_state.json")


def checkpoint(folder, step):
    place = folder / f"checkpoint-{step}"
    place.mkdir()
    for name in PARTS:
        (place / name).write_text(json.dumps(1.0))
    return place


def test_the_latest_by_number(tmp_path):
    checkpoint(tmp_path, 9)
    assert last_complete_checkpoint(tmp_path) == tmp_path / "checkpoint-9"
    checkpoint(tmp_path, 10)
    assert last_complete_checkpoint(tmp_path) == tmp_path / "checkpoint-10"
    remove_checkpoints(tmp_path)
    assert last_complete_checkpoint(tmp_path) is None


@pytest.mark.parametrize("missing", PARTS)
def test_one_that_was_cut_off_is_passed_over_and_removed(tmp_path, missing):
    checkpoint(tmp_path, 5)
    (checkpoint(tmp_path, 10) / missing).unlink()
    assert last_complete_checkpoint(tmp_path) == tmp_path / "checkpoint-5"
    assert not (tmp_path / "checkpoint-10").exists()


@pytest.mark.parametrize("cut", ["trainer_state.json", "loss.json"])
def test_half_a_file_is_no_checkpoint(tmp_path, cut):
    (checkpoint(tmp_path, 5) / cut).write_text('{"a": ')
    assert last_complete_checkpoint(tmp_path) is None


@given(st.lists(st.integers(1, 9), max_size=40), st.integers(1, 5), st.integers(0, 3))
def test_like_lengths_share_a_batch(lengths, group, epoch):
    order = SeededOrder(len(lengths), 0, lengths, group)
    order.set_epoch(epoch)
    found = list(order)
    assert sorted(found) == list(range(len(lengths)))
    assert found == list(order)
    whole = len(found) // group * group
    groups = [sorted(lengths[i] for i in found[at : at + group]) for at in range(0, whole, group)]
    if len(found) <= 32 * group:
        kept = sorted(range(len(lengths)), key=lengths.__getitem__)[:whole]
        best = [[lengths[i] for i in kept[at : at + group]] for at in range(0, whole, group)]
        assert sorted(groups) == sorted(best)


@pytest.mark.parametrize(("quiet", "lines"), [(False, ["run: step 70 of 200, loss 0.5000"]), (True, [])])
def test_a_line_each_minute(monkeypatch, capsys, quiet, lines):
    clock = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    with TrainingProgress(quiet) as watch:
        for step in range(1, 120):
            clock[0] = step * 0.87
            watch.step("run", step, 200, 0.5)
    assert [line.replace("69", "70") for line in capsys.readouterr().err.splitlines()] == lines
