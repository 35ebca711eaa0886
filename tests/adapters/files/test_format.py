import json

import pytest
import torch

from attangent import AttangentError
from attangent.adapters import NTKConfig, attention_layers
from attangent.adapters.files.format import blank_states, describe_state, rebuild_state
from attangent.adapters.states import new_state
from attangent.attention import RaggedState
from tests.adapters.models import tiny

CONFIGS = {
    "calibrated": NTKConfig(share=0),
    "log-mass": NTKConfig(),
    "anchors": NTKConfig(features="anchors", size=3),
    "raw": NTKConfig(features="elu", init="gaussian"),
    "low-rank": NTKConfig(features="elu", rank=2),
    "authors": NTKConfig(features="elu", units="authors"),
    "taylor": NTKConfig(features="taylor", size=2, init="gaussian"),
    "positive-random": NTKConfig(features="positive-random", size=5),
}


@pytest.fixture(scope="module")
def layer():
    return attention_layers(tiny("llama"))[0]


@pytest.mark.parametrize("name", CONFIGS)
def test_every_kind_of_state_is_rebuilt_from_its_description(name, layer):
    state = new_state(CONFIGS[name], layer, 0)
    described = json.loads(json.dumps(describe_state(state)))
    again = rebuild_state(described, {key: t.clone() for key, t in state.state_dict().items()})
    assert type(again) is type(state)
    q = torch.randn(1, 4, 3, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(again.features(q), state.features(q))
    for one, two in zip(again.weights(), state.weights(), strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("name", CONFIGS)
def test_blank_states_have_the_shapes(name, layer):
    state = new_state(CONFIGS[name], layer, 0)
    blank = blank_states({"layer": describe_state(state)})["layer"]
    assert {key: t.shape for key, t in blank.state_dict().items()} == {
        key: t.shape for key, t in state.state_dict().items()
    }


@pytest.mark.parametrize("shapes", [None, [], {"Z": 3}, {"Z": [2, 0]}, {"Z": ["2"]}, {"Z": [True]}])
def test_shapes_that_cannot_be_are_refused(shapes):
    with pytest.raises(AttangentError, match="expected lists of sizes"):
        blank_states({"layer": {"shapes": shapes}})


def test_an_object_that_is_no_state_of_ours_is_refused():
    with pytest.raises(AttangentError, match="a state of type Linear"):
        describe_state(torch.nn.Linear(1, 1))


def ragged():
    keys = [torch.randn(size, 8, generator=torch.Generator().manual_seed(size)) for size in (3, 20)]
    return RaggedState.of(keys, keys, [torch.ones(3), torch.ones(20)], softcap=5.0)


def test_states_of_different_sizes_are_rebuilt_from_their_description():
    state = ragged()
    described = json.loads(json.dumps(describe_state(state)))
    assert described["settings"] == {"softcap": 5.0, "sizes": [3, 20]}
    again = rebuild_state(described, dict(state.state_dict()))
    assert isinstance(again, RaggedState)
    assert (again.sizes, again.softcap) == (state.sizes, 5.0)
    assert all(torch.equal(one, two) for one, two in zip(again.tokens(), state.tokens(), strict=True))
    assert blank_states({"layer": described})["layer"].sizes == (3, 20)


@pytest.mark.parametrize(
    "settings",
    [
        {"softcap": None},
        {"softcap": None, "sizes": [3, 21]},
        {"softcap": None, "sizes": [23, 0]},
        {"softcap": None, "sizes": [-1, 24]},
        {"softcap": None, "sizes": ["3", 20]},
        {"softcap": None, "sizes": None},
        {"softcap": -1.0, "sizes": [3, 20]},
        {"softcap": "much", "sizes": [3, 20]},
        {"softcap": None, "sizes": [3, 20], "more": 1},
    ],
)
def test_sizes_that_are_not_those_of_the_tensors_are_refused(settings):
    state = ragged()
    described = describe_state(state) | {"settings": settings}
    with pytest.raises(AttangentError):
        rebuild_state(described, dict(state.state_dict()))


def test_unknown_or_missing_tensors_of_a_ragged_state_are_refused():
    state = ragged()
    for change in ({"keys": None}, {"more": torch.ones(1)}):
        tensors = {k: t for k, t in {**state.state_dict(), **change}.items() if t is not None}
        with pytest.raises(AttangentError):
            rebuild_state(describe_state(state), tensors)


def test_states_that_are_too_large_together_are_refused():
    described = {str(layer): {"shapes": {"Z": [1 << 14, 1 << 13]}} for layer in range(3)}
    with pytest.raises(AttangentError, match="402,653,184 numbers, expected"):
        blank_states(described)
