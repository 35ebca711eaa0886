"""States come back from tensors as they were."""

import pytest
import torch

from attangent.compression.entry import compress
from attangent.compression.packing import packed, unpacked
from tests.compression.cases import Letters, tiny_llama

TEXT = "some text that is long enough to be worth compressing, and then a little more. "


@pytest.mark.parametrize("method", ["recall", "anchors"])
def test_states_come_back_from_tensors(method):
    states = compress(tiny_llama(layers=2), Letters(), TEXT, size=10, method=method).states
    found = unpacked(packed(states))
    assert list(found) == list(states)
    for name, state in found.items():
        assert type(state) is type(states[name])
        assert torch.equal(state.features.keys, states[name].features.keys)
        for now, before in zip(state.weights(), states[name].weights(), strict=True):
            assert torch.equal(now, before)
