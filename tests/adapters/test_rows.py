"""Another prefix for each row of a batch: every row is answered as if it were alone."""

import copy
from dataclasses import dataclass

import pytest
import torch

import attangent
from attangent import AttangentError, attach
from attangent.adapters import (
    NTKConfig,
    activate,
    active_adapters,
    attention_layers,
    batch,
    disabled,
    states_of,
)
from attangent.adapters.record import find_record
from attangent.adapters.slot import slot_of
from attangent.attention import PrefixState, RaggedState
from attangent.attention.backends.cpu import decoding
from attangent.attention.features import Anchors
from tests.adapters.models import inputs, logits, shake, tiny

OPTIONS = {"max_new_tokens": 5, "do_sample": False, "eos_token_id": None}


pytestmark = pytest.mark.usefixtures("merging")


@dataclass(frozen=True)
class Guide:
    """As a compressed prompt: a config and states."""

    config: NTKConfig
    states: dict


def guide(model, offset, seed, ragged=False):
    draw, states = torch.Generator().manual_seed(seed), {}
    for layer in attention_layers(model):
        sizes = [3 + 9 * head * ragged for head in range(layer.kv_heads)]
        keys, values = ([torch.randn(r, layer.key_size, generator=draw) for r in sizes] for _ in range(2))
        masses = [torch.rand(r, generator=draw) + 0.5 for r in sizes]
        state = RaggedState.of(keys, values, masses)
        states[layer.name] = state if ragged else PrefixState(Anchors(torch.stack(keys)), *state.weights())
    return Guide(NTKConfig(features="anchors", units="raw", per="kv", position_offset=offset), states)


def two_tuned(name):
    model = attach(tiny(name), NTKConfig(), "one", calibration=inputs(name))
    attach(model, NTKConfig(features="anchors", size=4, per="kv"), "two", calibration=inputs(name))
    shake(model, "one", seed=1)
    return shake(model, "two", seed=2)


def rows_of(given, row):
    return {name: value[row : row + 1] for name, value in given.items()}


def alone(model, adapter, given):
    """What the model answers to one row with this adapter only, and what it writes."""
    model = copy.deepcopy(model)
    if adapter is None and find_record(model) is None:
        return logits(model, given), model.generate(**given, **OPTIONS)
    if isinstance(adapter, Guide):
        attach(model, adapter.config, "guide", states=copy.deepcopy(adapter.states))
        adapter = "guide"
    activate(model, *([] if adapter is None else [adapter]))
    return logits(model, given), model.generate(**given, **OPTIONS)


def check(model, adapters, given):
    with batch(model, adapters):
        found, written = logits(model, given), model.generate(**given, **OPTIONS)
    for row, adapter in enumerate(adapters):
        own = rows_of(given, row)
        wanted, said = alone(model, adapter, own)
        real = own["attention_mask"][0].bool()
        torch.testing.assert_close(found[row][real], wanted[0][real], rtol=1e-4, atol=1e-5)
        assert torch.equal(written[row : row + 1], said)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize("side", ["left", "none"])
@pytest.mark.parametrize("ragged", [False, True])
def test_prompts_of_other_lengths_on_a_bare_model(name, side, ragged):
    model, given = tiny(name), inputs(name, side="left")
    if side == "none":
        given = {"input_ids": given["input_ids"], "attention_mask": torch.ones_like(given["input_ids"])}
    before = logits(model, given)
    check(model, [guide(model, 9, 1, ragged), None, guide(model, 4, 2)], given)
    assert find_record(model) is None
    assert torch.equal(logits(model, given), before)
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_tuned_adapters_by_name_and_a_prompt_beside_them():
    model, given = two_tuned("llama"), inputs("llama", side="left")
    check(model, ["one", "two", None], given)
    check(model, [guide(model, 3, 5), "two", "two"], given)
    assert active_adapters(model) == ("two",)
    assert list(find_record(model).configs) == ["one", "two"]


def test_decoding_is_folded():
    model, given = two_tuned("llama"), inputs("llama", side="left")
    with batch(model, ["one", None, "two"]):
        model.generate(**given, **OPTIONS)
        folded = slot_of(model.model.layers[0].self_attn).folded
        assert folded is not None
        assert folded.alone is not None
        assert (folded.alone.merge is None) == (decoding.library() is None)


def test_what_cannot_be_folded_is_answered_too():
    model = attach(tiny("llama"), NTKConfig(features="elu", init="gaussian"), "elu")
    attach(model, NTKConfig(), "learned", calibration=inputs("llama"))
    check(model, ["elu", "learned", None], inputs("llama", side="left"))


def test_eager_models():
    model = two_tuned("llama")
    for own in find_record(model).implementations:
        own[0]._attn_implementation_internal = "attangent_eager"
    given = inputs("llama", side="left")
    check(model, ["one", "two", None], given)
    with batch(model, ["one", "two", None]), torch.no_grad():
        assert model(**given, output_attentions=True).attentions[0].shape[0] == 3


def test_encoders_and_cross_attention():
    for name in ("bert", "t5"):
        model, given = attach(tiny(name), NTKConfig(), "one", calibration=inputs(name)), inputs(name)
        shake(attach(model, NTKConfig(), "two", calibration=given), "two")
        shake(model, "one", seed=4)
        with batch(model, ["one", "two", None]):
            found = logits(model, given)
        for row, adapter in enumerate(["one", "two", None]):
            activate(model, *([adapter] if adapter else []))
            wanted = logits(model, rows_of(given, row))
            torch.testing.assert_close(found[row : row + 1], wanted, rtol=1e-4, atol=1e-5)


def test_gradients_are_those_of_the_rows_alone():
    given, model = inputs("llama", side="right"), two_tuned("llama")

    def gradients(rows):
        model.zero_grad()
        for adapters, own in rows:
            with batch(model, adapters):
                out = model(**own).logits
                (out.square() * own["attention_mask"][..., None]).sum().backward()
        return [
            p.grad.clone()
            for n in ("one", "two")
            for s in states_of(model, n).values()
            for p in s.parameters()
        ]

    together = gradients([(["one", "two", "one"], given)])
    apart = gradients([([name], rows_of(given, row)) for row, name in enumerate(["one", "two", "one"])])
    for one, two in zip(together, apart, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)


def test_beams_and_return_sequences_are_copies_of_rows():
    model, given = two_tuned("llama"), inputs("llama", side="left")
    options = OPTIONS | {"num_beams": 2, "num_return_sequences": 2}
    with batch(model, ["one", None, "two"], copies=2):
        written = model.generate(**given, **options)
    for row, adapter in enumerate(["one", None, "two"]):
        activate(model, *([adapter] if adapter else []))
        said = model.generate(**rows_of(given, row), **options)
        assert torch.equal(written[2 * row : 2 * row + 2], said)


def test_disabled_inside_a_batch_is_the_base_model():
    model, given = two_tuned("llama"), inputs("llama")
    activate(model)
    bare = logits(model, given)
    with batch(model, ["one", "two", "one"]), disabled(model):
        assert torch.equal(logits(model, given), bare)


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_another_number_of_rows_is_refused(rows):
    model, given = two_tuned("llama"), inputs("llama")
    many = {name: torch.cat([value, value])[:rows] for name, value in given.items()}
    with (
        batch(model, ["one", "two", None]),
        pytest.raises(AttangentError, match=f"has {rows} rows, but adapters"),
    ):
        model(**many)
    with (
        batch(model, ["one", "two", None]),
        pytest.raises(AttangentError, match="their number as copies"),
    ):
        model.generate(**given, **OPTIONS, num_beams=2)


@pytest.mark.parametrize(
    ("adapters", "says"),
    [
        (["one", "three"], "no adapter 'three', expected one of 'one', 'two'"),
        ([], "expected a list"),
        ("one", "expected a list"),
        (["one", 3], "a row's adapter is int, expected a name"),
        (None, "expected a list"),
    ],
)
def test_what_is_no_adapter_is_refused(adapters, says):
    model = two_tuned("llama")
    with pytest.raises(AttangentError, match=says), batch(model, adapters):
        pass
    assert find_record(model).rows is None


def test_names_on_a_bare_model_and_copies_of_nothing_are_refused():
    with pytest.raises(AttangentError, match="no adapter attached"), batch(tiny("llama"), ["one"]):
        pass
    with pytest.raises(AttangentError, match="copies is 0"), batch(tiny("llama"), [None], copies=0):
        pass


def test_adapters_with_a_classifier_are_refused():
    model = attach(tiny("bert"), NTKConfig(modules_to_save=("classifier",)), "one")
    with (
        pytest.raises(AttangentError, match=r"saved modules \(classifier\)"),
        batch(model, ["one", None]),
    ):
        pass


def test_a_prompt_of_another_model_is_refused_and_nothing_stays():
    model, given = tiny("llama"), inputs("llama")
    before = logits(model, given)
    foreign = guide(tiny("gpt2"), 3, 0)
    with pytest.raises(AttangentError, match="expected some of"), batch(model, [guide(model, 3, 0), foreign]):
        pass
    assert find_record(model) is None
    assert torch.equal(logits(model, given), before)


def test_it_does_not_nest_and_ends_with_an_error():
    model, given = two_tuned("llama"), inputs("llama")
    before = logits(model, given)
    with batch(model, ["one", None, "two"]):
        with pytest.raises(AttangentError, match="inside another batch already"), batch(model, [None]):
            pass
        assert find_record(model).rows == ("one", None, "two")
    with pytest.raises(ZeroDivisionError), batch(model, ["one", None, "two"]):
        raise ZeroDivisionError
    assert torch.equal(logits(model, given), before)


def test_it_is_a_public_name():
    assert attangent.batch is batch
