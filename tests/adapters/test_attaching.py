import warnings

import pytest
import torch

from attangent import AttangentError, PrefixState
from attangent.adapters import (
    CalibrationWarning,
    NTKConfig,
    activate,
    attach,
    batch,
    calibrate,
    delete,
    load_adapter,
    save_adapter,
    states_of,
)
from attangent.attention.features import Anchors, Elu
from tests.adapters.models import inputs, logits, tiny


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"config": {"size": 3}}, "expected an NTKConfig"),
        ({"name": "../x"}, "name is '../x'"),
        ({"name": "a.b"}, "expected letters"),
        ({"prompt": {}}, "belong together"),
        ({"config": NTKConfig(features="elu", init="text")}, "belong together"),
        ({"states": {}}, "no layer"),
        ({"states": {"nowhere": None}}, "states is dict, expected a mapping from a text to a Prefix"),
        ({"config": NTKConfig(modules_to_save=("nothing",))}, "modules_to_save names 'nothing'"),
        ({"calibration": []}, "no batch"),
        ({"calibration": [3]}, "calibration is list, expected a mapping from a text"),
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


@pytest.mark.parametrize("wrong", [None, 3, [1], {}, object()], ids=lambda wrong: type(wrong).__name__)
def test_things_of_another_kind_are_refused(wrong):
    model = attach(tiny("bert"))
    entries = [
        lambda: load_adapter(model, wrong, "other"),
        lambda: save_adapter(model, wrong),
        lambda: states_of(model, wrong),
        lambda: activate(model, wrong),
        lambda: delete(model, wrong),
        lambda: calibrate(model, 3 if wrong == {} else wrong),
        lambda: attach(wrong),
        lambda: NTKConfig(features=wrong),
        lambda: batch(wrong, [None]).__enter__(),
    ]
    for entry in entries:
        with pytest.raises(AttangentError):
            entry()


def test_units_that_nobody_measured_are_warned_of_at_the_line_of_the_caller():
    with pytest.warns(CalibrationWarning, match="Pass calibration=BATCH") as seen:
        attach(tiny("llama"))
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attach(tiny("llama"), calibration=inputs("llama"))
        attach(tiny("llama"), NTKConfig(features="elu", units="raw"))
