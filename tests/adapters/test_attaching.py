import copy
import warnings

import pytest
import torch

from attangent import AttangentError, PrefixState
from attangent.adapters import (
    CalibrationWarning,
    NTKConfig,
    attach,
    detach,
    disabled,
    states_of,
)
from attangent.attention.features import Anchors, Elu
from tests.adapters.models import inputs, logits, tiny


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"name": "../x"}, "name is '../x'"),
        ({"name": "a.b"}, "expected at most 64 letters"),
        ({"prompt": {}}, "need each other"),
        ({"config": NTKConfig(features="elu", init="text")}, "need each other"),
        ({"states": {}}, "no layer"),
        ({"states": {"nowhere": None}}, "states are given for ['nowhere'], expected some of"),
        ({"config": NTKConfig(modules_to_save=("nothing",))}, "modules_to_save has 'nothing'"),
        ({"calibration": []}, "no batch"),
        ({"calibration": [3]}, "a batch is int, expected the model's inputs by name"),
    ],
)
def test_bad_arguments_leave_the_model_as_it_was(arguments, says):
    model = tiny("bert")
    before = dict(model.state_dict())
    with pytest.raises(AttangentError) as error:
        attach(model, **arguments)
    assert says in str(error.value)
    assert list(model.state_dict()) == list(before)
    assert model.config._attn_implementation == "sdpa"
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_second_adapter_of_the_same_name_is_refused():
    model = attach(tiny("bert"))
    with pytest.raises(AttangentError, match="there is an adapter 'default' already"):
        attach(model)


def test_given_states_take_their_places():
    model, given = tiny("llama"), inputs("llama")
    keys = torch.randn(4, 6, 8, generator=torch.Generator().manual_seed(0))
    state = PrefixState.from_prefix(Anchors(keys), keys, keys)
    bare = logits(model, given)
    attach(model, NTKConfig(features="anchors"), states={"model.layers.1.self_attn": state})
    assert list(states_of(model)) == ["model.layers.1.self_attn"]
    assert not torch.allclose(logits(model, given), bare)


def test_given_states_that_do_not_fit_are_refused_with_the_layer():
    wrong = PrefixState.zero(Elu(5), 4)
    with pytest.raises(AttangentError, match=r"layer model\.layers\.1\.self_attn got a state of 4 heads"):
        attach(tiny("llama"), states={"model.layers.1.self_attn": wrong})


def test_training_with_dropout_moves_only_the_adapter():
    model, given = tiny("bert"), inputs("bert")
    attach(model, NTKConfig(modules_to_save=("classifier",)), calibration=given)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    model.train()
    torch.manual_seed(0)
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
    losses = []
    for _ in range(30):
        loss = model(**given, labels=torch.tensor([0, 1, 2])).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    for n, p in model.named_parameters():
        assert torch.equal(p, before[n]) != ("attangent_prefix" in n or n.startswith("classifier"))


def test_units_that_nobody_measured_are_warned_of_at_the_line_of_the_caller():
    with pytest.warns(CalibrationWarning, match="Pass calibration=BATCH") as seen:
        attach(tiny("llama"))
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attach(tiny("llama"), calibration=inputs("llama"))
        attach(tiny("llama"), NTKConfig(features="elu", units="raw"))


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_an_offset_moves_the_positions_of_the_tokens(name):
    model, given = tiny(name), inputs(name)
    given = {key: value[:1] for key, value in given.items()}
    positions = torch.arange(9)[None]
    with torch.no_grad():
        moved = model(**given, position_ids=positions + 20).logits
        plain = model(**given).logits
    attach(model, NTKConfig(share=0, position_offset=20))
    assert torch.equal(logits(model, given), moved)
    with torch.no_grad():
        assert torch.equal(model(**given, position_ids=positions).logits, moved)
    options = {"max_new_tokens": 4, "do_sample": False, "eos_token_id": None}
    assert torch.equal(
        model.generate(**given, **options), model.generate(**given, **options, use_cache=False)
    )
    with disabled(model):
        assert torch.equal(logits(model, given), plain)
    assert torch.equal(logits(copy.deepcopy(model), given), moved)
    twin = detach(copy.deepcopy(model))
    assert torch.equal(logits(twin, given), plain)
    assert torch.equal(logits(model, given), moved)


def test_an_offset_is_refused_where_nothing_has_positions():
    with pytest.raises(AttangentError, match="position_offset is 5"):
        attach(tiny("t5"), NTKConfig(position_offset=5))


def test_an_offset_beyond_the_table_of_positions_is_refused():
    with pytest.raises(AttangentError, match="position_offset is 64, but the model's table has 64 positions"):
        attach(tiny("gpt2"), NTKConfig(position_offset=64))
