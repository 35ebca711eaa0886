import json
import os

import pytest
import torch
from safetensors.torch import save_file

from attangent._core.errors import AttangentError
from attangent.attention import PrefixState, ntk_attention
from attangent.attention.features import Elu
from tests.attention.cases import MAPS, make_state, tokens


@pytest.mark.parametrize("name", MAPS)
def test_loaded_state_attends_as_the_saved_one(name, tmp_path):
    state = make_state(name, 4, 2)
    state.save(tmp_path / "state.safetensors")
    loaded = PrefixState.load(tmp_path / "state.safetensors")
    q, k, v = tokens(1, 2, 2, 3, 3, 4)
    assert torch.equal(ntk_attention(q, k, v, loaded), ntk_attention(q, k, v, state))
    assert [path.name for path in tmp_path.iterdir()] == ["state.safetensors"]


def test_dtype_low_rank_and_reflected_masses_survive(tmp_path):
    state = PrefixState.low_rank(Elu(4), heads=2, rank=1, seed=0, dtype=torch.bfloat16)
    with torch.no_grad():
        state.mass -= 1
        state.Z_B += 1
    state.save(tmp_path / "s")
    loaded = PrefixState.load(tmp_path / "s")
    assert loaded.Z_A.dtype == torch.bfloat16
    assert torch.equal(loaded.Z, state.Z)
    assert torch.equal(loaded.k, state.k)


def test_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "s"
    make_state("elu", 4, 2).save(path)
    before = path.read_bytes()

    def break_off(tensors, part, metadata):
        part.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr("safetensors.torch.save_file", break_off)
    with pytest.raises(AttangentError, match="disk full"):
        make_state("elu", 4, 2, seed=1).save(path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["s"]


def _write(path, tensors, **metadata):
    save_file(tensors, path, metadata=metadata)


def test_files_that_are_no_state_are_refused(tmp_path):
    with pytest.raises(AttangentError, match="no file"):
        PrefixState.load(tmp_path / "missing")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(AttangentError, match="not a safetensors file"):
        PrefixState.load(tmp_path / "text")
    _write(tmp_path / "other", {"a": torch.zeros(2)})
    with pytest.raises(AttangentError, match="has the format None"):
        PrefixState.load(tmp_path / "other")


@pytest.mark.parametrize(
    ("described", "tensors", "message"),
    [
        ({"map": "fourier", "settings": {}}, {"mass": torch.zeros(1, 4)}, "'fourier'"),
        ({"map": "elu", "settings": {"dim": 4}}, {"mass": torch.zeros(1, 4)}, "whole prefix state"),
        ({"map": "elu", "settings": {"size": 4}}, {"mass": torch.zeros(1, 4)}, "whole prefix state"),
        (
            {"map": "elu", "settings": {"dim": 4}},
            {"mass": torch.zeros(1, 3), "Z_full": torch.zeros(1, 4, 4)},
            "k",
        ),
        ({"settings": {}}, {"mass": torch.zeros(1, 4)}, "whole prefix state"),
    ],
)
def test_states_with_missing_or_wrong_parts_are_refused(described, tensors, message, tmp_path):
    metadata = {"format": "attangent prefix state 1", "features": json.dumps(described)}
    _write(tmp_path / "s", tensors, **metadata)
    with pytest.raises(AttangentError, match=message):
        PrefixState.load(tmp_path / "s")


def test_metadata_that_is_not_json_is_refused(tmp_path):
    _write(tmp_path / "s", {"mass": torch.zeros(1, 4)}, format="attangent prefix state 1", features="{")
    with pytest.raises(AttangentError, match="whole prefix state"):
        PrefixState.load(tmp_path / "s")


def test_a_pipe_is_no_state(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AttangentError, match="not a regular file"):
        PrefixState.load(tmp_path / "pipe")
