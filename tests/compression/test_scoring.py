"""Scores against attention in the input, and which tokens are kept."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from attangent.compression.capture import prefill
from attangent.compression.scoring import attention_scores, best_tokens
from attangent.compression.text import Calibration
from tests.compression.cases import tiny_llama


def test_scores_are_the_largest_attention_that_the_model_itself_pays(monkeypatch):
    model = tiny_llama(layers=2)
    prompt, rows = torch.arange(30) % 61, [torch.arange(9), torch.arange(5, 25)]
    model.set_attn_implementation("eager")
    slow = []
    for row in rows:
        with torch.no_grad():
            out = model(torch.cat([prompt, row])[None], output_attentions=True)
        seen = torch.stack([a[0, :, 30:, :30] for a in out.attentions])  # (layers, H, L, m)
        slow.append(seen.amax(dim=2).unflatten(1, (2, 2)).amax(dim=2))
    expected = torch.stack(slow).amax(dim=0)
    monkeypatch.setattr("attangent.compression.scoring._WEIGHTS", 100)
    monkeypatch.setattr("attangent.compression.scoring._AT_ONCE", 1)
    found = attention_scores(model, prefill(model, prompt), Calibration.of(rows))
    torch.testing.assert_close(torch.stack(list(found.values())), expected, atol=1e-5, rtol=1e-3)


@given(seed=st.integers(0, 50), size=st.integers(5, 30))
def test_the_total_is_kept_and_the_first_tokens_always(seed, size):
    draw = torch.Generator().manual_seed(seed)
    scores = {name: torch.rand(2, 20, generator=draw) for name in "abc"}
    kept = best_tokens(scores, size)
    heads = [places for layer in kept.values() for places in layer]
    assert sum(map(len, heads)) == min(size, 20) * 6
    worst = min(scores[n][h, p].item() for n in kept for h, row in enumerate(kept[n]) for p in row[4:])
    for name, layer in kept.items():
        for head, places in enumerate(layer):
            assert places[:4].tolist() == [0, 1, 2, 3]
            assert places.tolist() == sorted(set(places.tolist()))
            left = torch.ones(20, dtype=torch.bool)
            left[places] = False
            assert (scores[name][head][left] <= worst).all()
