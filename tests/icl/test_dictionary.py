"""Dictionaries and the prompts drawn from them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attangent._core.errors import AttangentError
from attangent.icl import OUT_OF_DOMAIN, Dictionary, Tasks
from attangent.icl.dictionary import as_labels

SIZES = {"K": 10, "d": 6, "m": 4, "N": 5, "tau": 0.3}


def test_tokens_are_of_norm_one_or_gaussian():
    unit = Dictionary.random(**SIZES)
    gaussian = Dictionary.random(**(SIZES | {"d": 2000}), tokens="gaussian")
    torch.testing.assert_close(unit.tokens.norm(dim=1), torch.ones(10, dtype=torch.float64))
    assert gaussian.tokens.square().mean().item() == pytest.approx(1, abs=0.05)


def test_the_seed_decides():
    first, again, other = (Dictionary.random(**SIZES, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.features, again.features)
    assert not torch.equal(first.features, other.features)


def test_representation_as_matrix_and_as_function():
    matrix = torch.arange(24.0, dtype=torch.float64).reshape(4, 6)
    by_matrix = Dictionary.random(**SIZES, representation=matrix)
    by_function = Dictionary.random(**SIZES, representation=lambda v: v @ matrix.T)
    assert torch.equal(by_matrix.features, by_function.features)
    nonlinear = Dictionary.of(by_matrix.tokens, lambda v: v[:, :3].square(), N=5, tau=0.1)
    assert nonlinear.m == 3


def test_the_tokens_tell_the_representations_unless_they_are_drawn_apart():
    for tokens in ("unit", "gaussian"):
        seen = Dictionary.random(K=3000, d=6, m=4, N=5, tau=0.3, tokens=tokens)
        matrix = torch.linalg.lstsq(seen.tokens, seen.features).solution
        torch.testing.assert_close(seen.tokens @ matrix, seen.features)
        assert not seen.apart
        assert seen.features.square().mean().item() == pytest.approx(1, abs=0.5)
    apart = Dictionary.random(K=3000, d=6, m=4, N=5, tau=0.3, representation="independent")
    fitted = apart.tokens @ torch.linalg.lstsq(apart.tokens, apart.features).solution
    assert fitted.square().mean() < 0.05
    assert apart.with_noise(0.1).apart


@given(
    shape=st.sampled_from(["gaussian", "rademacher"]),
    mean=st.floats(-1, 1),
    std=st.floats(0, 2),
)
def test_moments_of_tasks_and_labels(shape, mean, std):
    tasks = Tasks(shape, mean, std)
    dictionary = Dictionary.random(**SIZES)
    drawn = dictionary.prompts(4000, tasks)
    moment = drawn.tasks.T @ drawn.tasks / 4000
    assert (moment - tasks.second_moment(4)).abs().max() < 0.1 + 0.2 * (mean**2 + std**2)
    wanted = dictionary.label_moment(tasks)
    found = drawn.shown.T @ drawn.shown / 4000
    assert (found - wanted).norm() <= 0.25 * wanted.norm() + 1e-12


def test_noise_of_a_label_has_variance_tau_times_the_tasks_square():
    """lambda'eps_k has variance tau |lambda|^2 and is independent from token to token."""
    dictionary = Dictionary.random(**SIZES)
    drawn = dictionary.prompts(20_000, Tasks(mean=1.0, std=0.0))
    noise = drawn.labels - drawn.clean
    assert noise.square().mean().item() == pytest.approx(0.3 * 4, rel=0.02)
    assert (noise.T @ noise / 20_000 - torch.eye(10) * 1.2).abs().max() < 0.06


def test_metric_and_its_root():
    dictionary = Dictionary.random(**SIZES)
    wanted = dictionary.Z.T @ dictionary.Z + 4 * 0.3 * torch.eye(5)
    torch.testing.assert_close(dictionary.M, wanted)
    torch.testing.assert_close(dictionary.Z_bar @ dictionary.Z_bar, wanted)
    assert dictionary.f_max == pytest.approx(wanted.diagonal().sqrt().max().item())


def test_changed_copies():
    dictionary = Dictionary.random(**SIZES)
    assert dictionary.with_noise(0.5).tau == 0.5
    longer = dictionary.with_prompt_length(8)
    assert longer.Z.shape == (4, 8)
    assert longer.Z_query.shape == (4, 2)
    assert longer.M.shape == (8, 8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"N": 11}, "at most K=10"),
        ({"N": 0}, "N is 0"),
        ({"tau": -1.0}, "tau is -1.0"),
        ({"tau": float("nan")}, "tau is nan"),
        ({"d": 0}, "d is 0"),
        ({"tokens": "round"}, "tokens is 'round', expected one of unit, gaussian"),
        ({"representation": "round"}, "representation is 'round', expected one of linear, independent"),
        ({"representation": torch.ones(4, 5)}, "representation has shape"),
        ({"representation": lambda v: v[:3]}, "10 tokens but 3 features"),
    ],
)
def test_what_cannot_be_used_is_refused(changes, message):
    with pytest.raises(AttangentError, match=message):
        Dictionary.random(**(SIZES | changes))


def test_out_of_domain_tasks_are_those_of_the_paper():
    drawn = Dictionary.random(K=10, d=6, m=4, N=5, tau=0.3).prompts(20_000, OUT_OF_DOMAIN)
    assert drawn.tasks.mean().item() == pytest.approx(1, abs=0.05)
    assert drawn.tasks.var().item() == pytest.approx(4, rel=0.05)


def test_tasks_refuse_what_is_unknown():
    with pytest.raises(AttangentError, match="shape is 'uniform'"):
        Tasks("uniform")  # pyright: ignore[reportArgumentType]
    with pytest.raises(AttangentError, match="std is -1"):
        Tasks(std=-1)
    with pytest.raises(AttangentError, match="m is -1"):
        Tasks().second_moment(-1)


def test_labels_of_another_length_are_refused():
    with pytest.raises(AttangentError, match=r"cut longer ones with labels\[..., :2\]"):
        as_labels([1.0, 2.0, 3.0], 2)
