"""States of one layer: tokens picked, selected and merged."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attangent.adapters.call import AttentionCall
from attangent.compression.capture import prefill, sample
from attangent.compression.fidelity import measure_fidelity
from attangent.compression.methods.base import CompressionMethod
from attangent.compression.pipeline import fit_states
from attangent.compression.problem import fitted_masses, fitted_values
from attangent.compression.text import Calibration, pieces
from attangent.papers.p1_prefix.prompt_states import (
    HEAD_FITS,
    anchors,
    fit_layer,
    merge,
    most_attended,
    pick,
    prompt_effect,
    select,
)
from tests.compression.cases import STORY, Stories, stories_model
from tests.compression.methods.cases import error, problem


def test_all_tokens_chosen_leave_nothing_to_fit():
    given = problem()
    keys, masses, values = anchors(given, 24)
    assert torch.equal(keys, given.keys)
    torch.testing.assert_close(masses, torch.ones(24), atol=0.02, rtol=0)
    torch.testing.assert_close(values, given.values, atol=0.05, rtol=0)


@pytest.mark.parametrize("seed", range(5))
def test_fitted_tokens_are_closer_than_selected_ones(seed):
    given = problem(seed=seed)
    chosen, attended = pick(given, 10), most_attended(given, 10)
    fitted, selected = anchors(given, 10), select(given, 10)
    assert torch.equal(fitted[0], given.keys[chosen])
    assert error(given, fitted, chosen) < 0.5 * error(given, selected, attended)


@pytest.mark.parametrize("seed", range(5))
def test_tokens_much_alike_are_not_all_picked_however_attended(seed):
    given = problem(seed=seed, m=40, alike=20)
    chosen, attended = pick(given, 16), most_attended(given, 16)
    assert (attended >= 20).sum() > 5
    assert (chosen >= 20).sum() < (attended >= 20).sum()
    weights = given.weights[:, attended]
    masses = fitted_masses(weights, given.share, 1e-4)
    plain = given.keys[attended], masses, fitted_values(given, weights, masses, given.values[attended])
    assert error(given, anchors(given, 16), chosen) < 0.6 * error(given, plain, attended)


def unexplained(given, chosen):
    """What least squares on the attention to the chosen tokens leaves of what the prompt gives."""
    design, wanted = given.weights[:, chosen].double(), prompt_effect(given).double()
    return (wanted - design @ torch.linalg.lstsq(design, wanted).solution).square().sum().item()


@pytest.mark.parametrize("seed", range(3))
def test_each_picked_token_is_the_one_that_explains_most(seed, monkeypatch):
    monkeypatch.setattr("attangent.papers.p1_prefix.prompt_states._PICK_RIDGE", 1e-9)
    given = problem(n=200, m=14, seed=seed)
    chosen = [0, 1, 2, 3]
    while len(chosen) < 9:
        others = [j for j in range(14) if j not in chosen]
        chosen.append(min(others, key=lambda j: unexplained(given, [*chosen, j])))
        assert pick(given, len(chosen)).tolist() == sorted(chosen)


@given(seed=st.integers(0, 50), size=st.integers(5, 23))
def test_the_first_tokens_are_always_kept_and_none_twice(seed, size):
    for chosen in (pick(problem(seed=seed, n=40), size), most_attended(problem(seed=seed, n=40), size)):
        assert len(set(chosen.tolist())) == len(chosen) == size
        assert chosen[:4].tolist() == [0, 1, 2, 3]
        assert chosen.tolist() == sorted(chosen.tolist())


def test_merged_tokens_are_means_with_the_counts_of_what_they_replace():
    given = problem()
    keys, counts, values = merge(given, 7)
    assert counts.sum() == 24
    torch.testing.assert_close((counts.unsqueeze(1) * keys).sum(dim=0), given.keys.sum(dim=0))
    torch.testing.assert_close((counts.unsqueeze(1) * values).sum(dim=0), given.values.sum(dim=0))


class ByHead(CompressionMethod):
    """One of the fits, head by head."""

    name = "by head"
    queries = None

    def __init__(self, fit):
        self.fit = fit

    def choose(self, scores, size):
        raise NotImplementedError

    def fit_head(self, problem, chosen):
        return self.fit(problem, len(chosen))


def test_on_a_trained_model_the_closed_form_keeps_most_and_selections_less():
    model, tokenizer = stories_model(), Stories()
    ids = torch.tensor(tokenizer(STORY)["input_ids"])
    cache = prefill(model, ids)
    none = torch.zeros(0, dtype=torch.long)
    written = sample(model, cache, none, {"fitted": 8, "held out": 8}, 0)
    text = Calibration.of([*written["fitted"], *pieces(ids)])
    held_out = Calibration.of(list(written["held out"]))
    sizes = {name: [torch.arange(24)] * len(keys) for name, (keys, _) in cache.layers.items()}
    ratios = {}
    for name, fit in HEAD_FITS.items():
        states = fit_states(model, cache, text, ByHead(fit), sizes)
        ratios[name] = measure_fidelity(model, cache, states, held_out).ratio
    assert ratios["anchors"] < 0.05
    assert ratios["anchors"] < 0.5 * min(ratios["select"], ratios["merge"])


@pytest.mark.parametrize("method", ["elu", *HEAD_FITS])
def test_every_method_gives_a_layer_one_state(method):
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, heads, 9, 8, generator=draw) for heads in (4, 2, 2))
    keys, values = (torch.randn(2, 40, 8, generator=draw) for _ in range(2))
    call = AttentionCall("", q, k, v, None, True, 8**-0.5, None)
    state = fit_layer(call, torch.ones(2, 9, dtype=torch.bool), keys, values, 6, method)
    floats = 8 * 8 + 8 if method == "elu" else 6 * (8 + 8 + 1)
    assert sum(tensor.numel() for tensor in state.state_dict().values()) == 2 * floats
