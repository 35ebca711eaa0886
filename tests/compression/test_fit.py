"""The closed form: every part against a slow or exact answer, and the whole on a trained model."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attangent.compression.capture import prefill
from attangent.compression.fidelity import measure_fidelity
from attangent.compression.fit import (
    METHODS,
    Problem,
    _given,
    fit_anchors,
    fit_merged,
    fit_selected,
    fit_states,
    fitted_values,
    most_attended,
    non_negative,
    pick,
)
from attangent.compression.text import Calibration
from tests.compression.cases import STORY, Stories, stories_model, tiny_llama


def problem(n=300, m=24, tokens=6, d=4, seed=0, gain=2.0, alike=0):
    """Random queries, prompt and text, with their attention; the last `alike` tokens are much alike."""
    draw = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(rows, d, generator=draw) for rows in (n, m, m))
    if alike:
        k[-alike:] = k[-alike:] / 20 + 1
        q = q + 1
    near_k, near_v = torch.randn(tokens, d, generator=draw), torch.randn(tokens, d, generator=draw)
    chances = (gain * q @ torch.cat([k, near_k]).mT / d**0.5).softmax(dim=1)
    weights, rest = chances[:, :m], chances[:, m:].sum(dim=1)
    beside = chances[:, m:] @ near_v / rest.unsqueeze(1)
    return Problem(weights, rest, beside, weights @ v + rest.unsqueeze(1) * beside, k, v)


def error(given, solution, chosen):
    """Mean squared error of the output of virtual tokens that stand where `chosen` stands."""
    _, masses, values = solution
    part = given.weights[:, chosen] * masses
    total = part.sum(dim=1) + given.rest
    found = (part @ values + given.rest.unsqueeze(1) * given.beside) / total.unsqueeze(1)
    return (found - given.output).square().mean().item()


def test_all_tokens_chosen_leave_nothing_to_fit():
    given = problem()
    keys, masses, values = fit_anchors(given, 24)
    assert torch.equal(keys, given.keys)
    torch.testing.assert_close(masses, torch.ones(24), atol=0.02, rtol=0)
    torch.testing.assert_close(values, given.values, atol=0.05, rtol=0)


@pytest.mark.parametrize("seed", range(5))
def test_fitted_tokens_are_closer_than_selected_ones(seed):
    given = problem(seed=seed)
    chosen, attended = pick(given, 10), most_attended(given, 10)
    anchors, selected = fit_anchors(given, 10), fit_selected(given, 10)
    assert torch.equal(anchors[0], given.keys[chosen])
    assert error(given, anchors, chosen) < 0.5 * error(given, selected, attended)


@pytest.mark.parametrize("seed", range(5))
def test_tokens_much_alike_are_not_all_picked_however_attended(seed):
    given = problem(seed=seed, m=40, alike=20)
    chosen, attended = pick(given, 16), most_attended(given, 16)
    assert (attended >= 20).sum() > 5
    assert (chosen >= 20).sum() < (attended >= 20).sum()
    weights = given.weights[:, attended]
    masses = non_negative(weights, given.share, 1e-4)
    plain = given.keys[attended], masses, fitted_values(given, weights, masses, given.values[attended])
    assert error(given, fit_anchors(given, 16), chosen) < 0.6 * error(given, plain, attended)


def unexplained(given, chosen):
    """What least squares on the attention to the chosen tokens leaves of what the prompt gives."""
    design, wanted = given.weights[:, chosen].double(), _given(given).double()
    return (wanted - design @ torch.linalg.lstsq(design, wanted).solution).square().sum().item()


@pytest.mark.parametrize("seed", range(3))
def test_each_picked_token_is_the_one_that_explains_most(seed, monkeypatch):
    monkeypatch.setattr("attangent.compression.fit._PICK_RIDGE", 1e-9)
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


@given(seed=st.integers(0, 100))
def test_masses_are_the_best_that_are_not_negative(seed):
    draw = torch.Generator().manual_seed(seed)
    design = torch.rand(60, 6, generator=draw)
    target = design @ torch.randn(6, generator=draw)
    found = non_negative(design, target, 1e-8)
    assert (found >= 0).all()
    gradient = design.mT @ (design @ found - target) / 60
    assert (gradient > -1e-4).all()
    assert (gradient[found > 1e-6].abs() < 1e-4).all()


def test_values_solve_their_ridge_regression():
    given, chosen = problem(), torch.arange(8)
    weights, masses = given.weights[:, chosen], torch.rand(8) + 0.5
    start = given.values[chosen]
    found = fitted_values(given, weights, masses, start)

    def loss(values):
        part = weights * masses
        total = (part.sum(dim=1) + given.rest).unsqueeze(1)
        design = (part / total).double()
        output = design @ values + (given.rest.unsqueeze(1) / total * given.beside).double()
        ridge = 1e-2 * design.square().sum(dim=0).mean()
        return (output - given.output).square().sum() + ridge * (values - start).square().sum()

    values = found.double().requires_grad_()
    loss(values).backward()
    assert values.grad is not None
    assert values.grad.abs().max() < 1e-3 * loss(start.double())


def test_merged_tokens_are_means_with_the_counts_of_what_they_replace():
    given = problem()
    keys, counts, values = fit_merged(given, 7)
    assert counts.sum() == 24
    torch.testing.assert_close((counts.unsqueeze(1) * keys).sum(dim=0), given.keys.sum(dim=0))
    torch.testing.assert_close((counts.unsqueeze(1) * values).sum(dim=0), given.values.sum(dim=0))


@pytest.mark.parametrize("method", [*METHODS, "elu"])
def test_every_method_gives_a_state_to_every_layer(method):
    model = tiny_llama()
    cache = prefill(model, torch.arange(60) % 61)
    text = Calibration.of([torch.arange(20), torch.arange(7)])
    seen = []
    states = fit_states(model, cache, text, 16, method, seen.append)
    assert list(states) == list(cache.layers) == seen
    for state in states.values():
        assert state.heads == 2
        assert state.features.size == (8 if method == "elu" else 16)


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
        for method in (*METHODS, "elu")
    }
    assert ratios["anchors"] < 0.05
    assert ratios["anchors"] < 0.5 * min(ratios["select"], ratios["merge"], ratios["elu"])
    assert ratios["elu"] > 0.3
