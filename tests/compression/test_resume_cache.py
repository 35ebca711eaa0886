"""The resume cache: used by the same run only, and errors for broken files."""

import pytest
import torch

from attangent import AttangentError, PrefixState
from attangent.attention.features import Anchors
from attangent.compression.entry import compress
from attangent.compression.resume_cache import ResumeCache, packed, unpacked
from tests.compression.cases import Letters, tiny_llama


def test_what_was_stored_is_loaded_by_the_same_run(tmp_path):
    cache = ResumeCache(tmp_path, ["a", 1])
    assert cache.load_tensors("text") is None
    assert cache.load_json("quiz") is None
    stored = cache.save_tensors("text", {"ids": torch.arange(3)})
    assert cache.save_json("quiz", {"full": ["x"]}) == {"full": ["x"]}
    again = ResumeCache(tmp_path, ["a", 1])
    loaded = again.load_tensors("text")
    assert loaded is not None
    assert torch.equal(loaded["ids"], stored["ids"])
    assert again.load_json("quiz") == {"full": ["x"]}
    again.clear()
    assert list(tmp_path.iterdir()) == []


def test_another_run_starts_again_and_clears_the_old_one(tmp_path):
    ResumeCache(tmp_path, 1).save_json("quiz", 1)
    other = ResumeCache(tmp_path, 2)
    assert other.load_json("quiz") is None
    assert other.folder is not None
    assert [path.name for path in other.folder.parent.iterdir()] == [other.folder.name]


def test_states_come_back_in_the_order_of_the_layers(tmp_path):
    names = [f"model.layers.{number}.self_attn" for number in range(12)]
    states = {
        name: PrefixState(
            Anchors(torch.zeros(2, 3, 4)), torch.full((2, 3, 4), float(number)), torch.ones(2, 3)
        )
        for number, name in enumerate(names)
    }
    saved = ResumeCache(tmp_path, 1).save_states("states", states)
    loaded = ResumeCache(tmp_path, 1).load_states("states")
    assert loaded is not None
    assert list(saved) == list(loaded) == names
    assert [state.Z[0, 0, 0].item() for state in loaded.values()] == list(range(12))


def test_broken_files_raise_an_error(tmp_path):
    cache = ResumeCache(tmp_path, 1)
    for name in ("quiz.json", "text.safetensors"):
        path = cache.path(name)
        assert path is not None
        path.write_bytes(b"nonsense")
    with pytest.raises(AttangentError, match="remove it to start again"):
        cache.load_json("quiz")
    with pytest.raises(AttangentError, match="remove it to start again"):
        cache.load_tensors("text")


def test_without_a_folder_nothing_is_stored():
    cache = ResumeCache()
    assert cache.save_json("quiz", 5) == 5
    assert cache.load_json("quiz") is None
    assert cache.path("x") is None


TEXT = "some text that is long enough to be worth compressing, and then a little more. "


@pytest.mark.parametrize("method", ["recall", "plain"])
def test_states_come_back_from_tensors(method):
    states = compress(tiny_llama(layers=2), Letters(), TEXT, size=10, method=method).states
    found = unpacked(packed(states))
    assert list(found) == list(states)
    for name, state in found.items():
        assert type(state) is type(states[name])
        assert torch.equal(state.features.keys, states[name].features.keys)
        for now, before in zip(state.weights(), states[name].weights(), strict=True):
            assert torch.equal(now, before)
