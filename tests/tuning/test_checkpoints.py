"""Only checkpoints that are whole count."""

import json

import pytest

from attangent.tuning.checkpoints import drop_checkpoints, last_whole_checkpoint

PARTS = ("trained.safetensors", "loss.json", "optimizer.pt", "scheduler.pt", "trainer_state.json")


def checkpoint(folder, step):
    place = folder / f"checkpoint-{step}"
    place.mkdir()
    for name in PARTS:
        (place / name).write_text(json.dumps(1.0))
    return place


def test_the_latest_by_number(tmp_path):
    checkpoint(tmp_path, 9)
    assert last_whole_checkpoint(tmp_path) == tmp_path / "checkpoint-9"
    checkpoint(tmp_path, 10)
    assert last_whole_checkpoint(tmp_path) == tmp_path / "checkpoint-10"
    drop_checkpoints(tmp_path)
    assert last_whole_checkpoint(tmp_path) is None


@pytest.mark.parametrize("missing", PARTS)
def test_one_that_was_cut_off_is_passed_over_and_removed(tmp_path, missing):
    checkpoint(tmp_path, 5)
    (checkpoint(tmp_path, 10) / missing).unlink()
    assert last_whole_checkpoint(tmp_path) == tmp_path / "checkpoint-5"
    assert not (tmp_path / "checkpoint-10").exists()


@pytest.mark.parametrize("cut", ["trainer_state.json", "loss.json"])
def test_half_a_file_is_no_checkpoint(tmp_path, cut):
    (checkpoint(tmp_path, 5) / cut).write_text('{"a": ')
    assert last_whole_checkpoint(tmp_path) is None
