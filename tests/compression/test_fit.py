"""The closed form on a model: every method, padding, and what is kept on a trained model."""

import pytest
import torch

from attangent.compression.capture import prefill
from attangent.compression.fidelity import measure_fidelity
from attangent.compression.fit import fit_states
from attangent.compression.methods import METHODS
from attangent.compression.text import Calibration, PackedText
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


def test_sequences_in_one_row_are_read_as_if_each_had_its_own(monkeypatch):
    model = tiny_llama()
    cache = prefill(model, torch.arange(60) % 61)
    text = Calibration.of([torch.arange(20), torch.arange(5, 14), torch.arange(30, 37), torch.arange(3)])
    assert len(text.packed().ids) == 2
    packed = fit_states(model, cache, text, 12)
    apart = PackedText.of([[row] for row in sorted(text.sequences(), key=len, reverse=True)])
    monkeypatch.setattr(Calibration, "packed", lambda self: apart)
    for a, b in zip(packed.values(), fit_states(model, cache, text, 12).values(), strict=True):
        torch.testing.assert_close(a.Z, b.Z, atol=1e-3, rtol=1e-2)


def test_on_a_trained_model_the_closed_form_keeps_most_and_the_rivals_less():
    model, tokenizer = stories_model(), Stories()
    ids = torch.tensor(tokenizer(STORY)["input_ids"])
    cache = prefill(model, ids)
    from attangent.compression.text import pieces, sample

    none = torch.zeros(0, dtype=torch.long)
    written = sample(model, cache, none, {"fitted": 8, "held out": 8}, 0)
    text = Calibration.of([*written["fitted"], *pieces(ids)])
    held_out = Calibration.of(list(written["held out"]))
    ratios = {
        method: measure_fidelity(model, cache, fit_states(model, cache, text, 24, method), held_out).ratio
        for method in METHODS
    }
    assert ratios["anchors"] < 0.05
    assert ratios["anchors"] < 0.5 * min(ratios["select"], ratios["merge"], ratios["elu"])
    assert ratios["elu"] > 0.3
