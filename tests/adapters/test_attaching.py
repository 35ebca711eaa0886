import copy

import pytest
import torch
from torch import nn

from attangent import AttangentError, PrefixState
from attangent.adapters import (
    NTKConfig,
    activate,
    active_adapters,
    attach,
    attention_layers,
    calibrate,
    delete,
    detach,
    disabled,
    load_adapter,
    save_adapter,
    states_of,
)
from attangent.attention.features import Anchors, Elu
from tests.adapters.models import inputs, tiny


def logits(model, given):
    with torch.no_grad():
        return model(**given).logits


def shake(model, name="default", seed=1):
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for state in states_of(model, name).values():
            for parameter in state.parameters():
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=draw))
    return model


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
    ("layers", "says"), [("nowhere", "matches no attention layer"), ((9,), "places [9]")]
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
    with pytest.raises(AttangentError, match=f"no layer of {kind}ForCausalLM takes a prefix"):
        attach(model)


@pytest.mark.parametrize("model", [nn.Linear(2, 2), "bert-base"])
def test_what_is_no_transformers_model_is_refused(model):
    with pytest.raises(AttangentError, match="expected a Hugging Face"):
        attach(model)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"config": {"size": 3}}, "expected an NTKConfig"),
        ({"name": "../x"}, "name is '../x'"),
        ({"name": "a.b"}, "expected letters"),
        ({"prompt": {}}, "belong together"),
        ({"config": NTKConfig(features="elu", init="text")}, "belong together"),
        ({"states": {}}, "no layer"),
        ({"states": {"nowhere": None}}, "nowhere"),
        ({"config": NTKConfig(modules_to_save=("nothing",))}, "modules_to_save names 'nothing'"),
        ({"calibration": []}, "no batch"),
        ({"calibration": [3]}, "a batch is int"),
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


def test_asking_a_bare_model_for_adapters_is_refused():
    for ask in (detach, active_adapters, states_of, lambda m: activate(m, "x")):
        with pytest.raises(AttangentError, match="no adapter attached"):
            ask(tiny("bert"))


def test_unknown_adapters_are_refused_and_the_last_one_is_not_deleted():
    model = attach(tiny("bert"))
    with pytest.raises(AttangentError, match="no adapter 'other', expected one of 'default'"):
        activate(model, "other")
    with pytest.raises(AttangentError, match=r"call attangent\.detach"):
        delete(model, "default")


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


def test_every_adapter_has_its_own_classifier(tmp_path):
    model, given = tiny("bert"), inputs("bert")
    bare = logits(model, given)
    weight = model.classifier.weight
    attach(model, NTKConfig(share=0, modules_to_save=("classifier",)), "one")
    with torch.no_grad():
        weight.add_(1)
    one = logits(model, given)
    attach(model, NTKConfig(share=0, modules_to_save=("classifier",)), "two")
    assert torch.equal(logits(model, given), bare)
    with torch.no_grad():
        weight.sub_(2)
    two = logits(model, given)
    with disabled(model):
        assert torch.equal(logits(model, given), bare)
    assert torch.equal(logits(model, given), two)
    twin = copy.deepcopy(model)
    assert torch.equal(logits(activate(twin, "one"), given), one)
    assert torch.equal(logits(model, given), two)
    activate(model, "one")
    assert torch.equal(logits(model, given), one)
    for name, expected in (("one", one), ("two", two)):
        save_adapter(model, tmp_path / name, name)
        assert torch.equal(logits(load_adapter(tiny("bert"), tmp_path / name), given), expected)
    detach(model)
    assert model.classifier.weight is weight
    assert torch.equal(logits(model, given), bare)


def test_disabling_between_forward_and_backward_does_no_harm():
    model, given = tiny("bert"), inputs("bert")
    shake(attach(model, NTKConfig(modules_to_save=("classifier",)), calibration=given))

    def gradient(with_reference):
        model.zero_grad()
        loss = model(**given).logits.square().mean()
        if with_reference:
            with disabled(model), torch.no_grad():
                model(**given)
        loss.backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    for one, two in zip(gradient(False), gradient(True), strict=True):
        assert torch.equal(one, two)


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
    with pytest.raises(AttangentError, match="position_offset is 64, but the model's table ends at 64"):
        attach(tiny("gpt2"), NTKConfig(position_offset=64))


def test_a_compiled_model_answers_the_same():
    model, given = tiny("llama"), inputs("llama")
    shake(attach(model, calibration=given))
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert torch.allclose(compiled(**given).logits, model(**given).logits, rtol=1e-5, atol=1e-5)
    compiled(**given).logits.square().mean().backward()
    ours = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    model(**given).logits.square().mean().backward()
    for one, p in zip(ours, (p for p in model.parameters() if p.requires_grad), strict=True):
        assert torch.allclose(one, p.grad, rtol=1e-4, atol=1e-6)


def test_eager_models_keep_their_attention_weights():
    model, given = tiny("bert"), inputs("bert")
    sdpa = copy.deepcopy(model)
    model.set_attn_implementation("eager")
    before = logits(model, given)
    attach(model, NTKConfig(share=0))
    with torch.no_grad():
        found = model(**given, output_attentions=True)
    assert torch.equal(found.logits, before)
    assert found.attentions[0].shape == (3, 4, 9, 9)
    both = [
        shake(attach(m, NTKConfig(), "b", calibration=given), "b")
        for m in (model, attach(sdpa, NTKConfig(share=0)))
    ]
    assert torch.allclose(logits(both[0], given), logits(both[1], given), rtol=1e-4, atol=1e-5)
    assert detach(model).config._attn_implementation == "eager"


def test_calibrating_a_raw_adapter_changes_nothing():
    model, given = attach(tiny("bert"), NTKConfig(features="elu")), inputs("bert")
    before = {n: t.clone() for n, t in model.state_dict().items()}
    calibrate(model, given)
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())
