import pytest
import torch

from attangent.adapters import (
    NTKConfig,
    attach,
    states_of,
)
from tests.adapters.models import inputs, logits, tiny


@pytest.mark.parametrize("per", ["query", "kv"])
def test_states_per_query_head_or_kv_head(per):
    model = attach(tiny("llama"), NTKConfig(per=per))
    assert {state.heads for state in states_of(model).values()} == {4 if per == "query" else 2}


@pytest.mark.parametrize("rank", [1, 3])
def test_low_rank_states_start_as_the_base_model_and_train(rank):
    model, given = tiny("llama"), inputs("llama")
    bare = logits(model, given)
    attach(model, NTKConfig(features="elu", rank=rank))
    assert torch.equal(logits(model, given), bare)
    model(**given).logits.square().mean().backward()
    assert all(s.Z_A.shape[-1] == rank and s.Z_B.grad.abs().max() > 0 for s in states_of(model).values())


def test_the_authors_masses_never_leave_zero_ours_do():
    given = inputs("llama")
    for units, moves in (("authors", False), ("raw", True)):
        model = attach(tiny("llama"), NTKConfig(features="elu", units=units))
        model(**given).logits.square().mean().backward()
        assert all((s.mass.grad.abs().max() > 0) == moves for s in states_of(model).values())


def test_gaussian_states_are_equation_7_of_a_random_prefix():
    model = attach(tiny("llama"), NTKConfig(features="elu", init="gaussian", prefix_length=50, seed=3))
    again = attach(tiny("llama"), NTKConfig(features="elu", init="gaussian", prefix_length=50, seed=3))
    for one, two in zip(states_of(model).values(), states_of(again).values(), strict=True):
        assert torch.equal(one.Z, two.Z)
        assert (one.k > 0).all()
        assert one.k.mean().item() == pytest.approx(50, rel=0.3)
    layers = list(states_of(model).values())
    assert not torch.equal(layers[0].Z, layers[1].Z)
