import pytest
from torch import nn

from attangent import AttangentError
from attangent.adapters import (
    NTKConfig,
    attach,
    attention_layers,
    detach,
    states_of,
)
from tests.adapters.models import tiny


def test_layers_by_pattern_and_by_place():
    model = tiny("t5")
    names = [layer.name for layer in attention_layers(model)]
    assert len(names) == 6
    attach(model, NTKConfig(layers=r"decoder.*EncDecAttention"))
    assert list(states_of(model)) == [name for name in names if "EncDec" in name]
    detach(model)
    attach(model, NTKConfig(layers=(0, -1)))
    assert list(states_of(model)) == [names[0], names[-1]]


@pytest.mark.parametrize(
    ("layers", "says"), [("nowhere", "matches no attention layer"), ((9,), "indices [9]")]
)
def test_layers_that_are_not_there_are_refused(layers, says):
    with pytest.raises(AttangentError) as error:
        attach(tiny("bert"), NTKConfig(layers=layers))
    assert says in str(error.value)


@pytest.mark.parametrize("kind", ["GPTNeo", "Bloom"])
def test_a_model_without_the_interface_is_refused_by_name(kind):
    import transformers

    sizes = {"hidden_size": 16, "num_layers": 2, "num_heads": 2, "attention_types": [[["global"], 2]]}
    if kind == "Bloom":
        sizes = {"hidden_size": 16, "n_layer": 1, "n_head": 2}
    model = getattr(transformers, f"{kind}ForCausalLM")(
        getattr(transformers, f"{kind}Config")(vocab_size=20, **sizes)
    )
    with pytest.raises(AttangentError, match=f"no layer of {kind}ForCausalLM can take a prefix"):
        attach(model)


@pytest.mark.parametrize("model", [nn.Linear(2, 2), "bert-base"])
def test_what_is_no_transformers_model_is_refused(model):
    with pytest.raises(AttangentError, match=r"expected a Hugging Face|expected a torch\.nn\.Module"):
        attach(model)


@pytest.mark.parametrize("pattern", [r"^(.|.|[a-z])+[A-Z]", r"^(\w|[a-z]|.)+\d\d$"])
def test_a_pattern_that_takes_exponentially_long_is_given_up(pattern):
    with pytest.raises(AttangentError, match=r"takes more than 0\.5 s to match"):
        attach(tiny("bert"), NTKConfig(layers=pattern))


def test_a_pattern_of_endless_length_is_refused():
    with pytest.raises(AttangentError, match="layers has 5000 characters"):
        NTKConfig(layers="a" * 5000)
