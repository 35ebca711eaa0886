"""Anchors: picked one by one for what is left to explain, then refitted."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attangent.compression.methods.anchors import AnchorsMethod, given_by_prompt, pick
from attangent.compression.methods.select import SelectMethod, most_attended
from attangent.compression.problem import fitted_masses, fitted_values
from tests.compression.methods.cases import error, problem


def test_all_tokens_chosen_leave_nothing_to_fit():
    given = problem()
    keys, masses, values = AnchorsMethod().solve(given, 24)
    assert torch.equal(keys, given.keys)
    torch.testing.assert_close(masses, torch.ones(24), atol=0.02, rtol=0)
    torch.testing.assert_close(values, given.values, atol=0.05, rtol=0)


@pytest.mark.parametrize("seed", range(5))
def test_fitted_tokens_are_closer_than_selected_ones(seed):
    given = problem(seed=seed)
    chosen, attended = pick(given, 10), most_attended(given, 10)
    anchors, selected = AnchorsMethod().solve(given, 10), SelectMethod().solve(given, 10)
    assert torch.equal(anchors[0], given.keys[chosen])
    assert error(given, anchors, chosen) < 0.5 * error(given, selected, attended)


@pytest.mark.parametrize("seed", range(5))
def test_tokens_much_alike_are_not_all_picked_however_attended(seed):
    given = problem(seed=seed, m=40, alike=20)
    chosen, attended = pick(given, 16), most_attended(given, 16)
    assert (attended >= 20).sum() > 5
    assert (chosen >= 20).sum() < (attended >= 20).sum()
    weights = given.weights[:, attended]
    masses = fitted_masses(weights, given.share, 1e-4)
    plain = given.keys[attended], masses, fitted_values(given, weights, masses, given.values[attended])
    assert error(given, AnchorsMethod().solve(given, 16), chosen) < 0.6 * error(given, plain, attended)


def unexplained(given, chosen):
    """What least squares on the attention to the chosen tokens leaves of what the prompt gives."""
    design, wanted = given.weights[:, chosen].double(), given_by_prompt(given).double()
    return (wanted - design @ torch.linalg.lstsq(design, wanted).solution).square().sum().item()


@pytest.mark.parametrize("seed", range(3))
def test_each_picked_token_is_the_one_that_explains_most(seed, monkeypatch):
    monkeypatch.setattr("attangent.compression.methods.anchors._PICK_RIDGE", 1e-9)
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
