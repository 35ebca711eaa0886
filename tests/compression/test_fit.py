"""The closed form on a model: every method, padding, and what is kept on a trained model."""

import pytest
import torch

from attangent.compression.capture import prefill
from attangent.compression.fidelity import measure_fidelity
from attangent.compression.fit import fit_states
from attangent.compression.methods import METHODS
from attangent.compression.text import Calibration
from tests.compression.cases import STORY, Stories, stories_model, tiny_llama


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_a_state_to_every_layer(method):
    model = tiny_llama()
    cache = prefill(model, torch.arange(60) % 61)
    text = Calibration.of([torch.arange(20), torch.arange(7)])
    seen = []
    states = fit_states(model, cache, text, 16, method, seen.append)
    assert list(states) == list(cache.layers) == seen
    for state in states.values():
        assert state.heads == 2
        floats = 8 * 8 + 8 if method == "elu" else 16 * (8 + 8 + 1)
        assert sum(tensor.numel() for tensor in state.state_dict().values()) == 2 * floats


def test_padding_changes_nothing():
    model = tiny_llama()
    cache = prefill(model, torch.arange(60) % 61)
    rows = [torch.arange(9), torch.arange(20)]
    padded = Calibration.of(rows)
    other = Calibration(padded.ids.masked_fill(~padded.valid, 33), padded.valid)
    for a, b in zip(
        fit_states(model, cache, padded, 12).values(),
        fit_states(model, cache, other, 12).values(),
        strict=True,
    ):
        torch.testing.assert_close(a.Z, b.Z)


def test_on_a_trained_model_the_closed_form_keeps_most_and_the_rivals_less():
    model, tokenizer = stories_model(), Stories()
    ids = torch.tensor(tokenizer(STORY)["input_ids"])
    cache = prefill(model, ids)
    from attangent.compression.text import pieces, sample

    none = torch.zeros(0, dtype=torch.long)
    text = Calibration.of([*sample(model, cache, none, 8, 0), *pieces(ids)])
    held_out = Calibration.of(list(sample(model, cache, none, 8, 1)))
    ratios = {
        method: measure_fidelity(model, cache, fit_states(model, cache, text, 24, method), held_out).ratio
        for method in METHODS
    }
    assert ratios["anchors"] < 0.05
    assert ratios["anchors"] < 0.5 * min(ratios["select"], ratios["merge"], ratios["elu"])
    assert ratios["elu"] > 0.3
