import copy

import pytest
import torch

from attangent.adapters import NTKConfig, activate, attach, states_of
from attangent.adapters.call import AttentionCall
from attangent.adapters.slot import slot_of
from attangent.adapters.states import CalibratedState
from attangent.attention import PrefixState, ntk_attention
from attangent.attention.backends.decode.fold import Folded, decode, fold, is_plain
from attangent.attention.features import Anchors, Elu, Learned
from tests.adapters.models import inputs, tiny
from tests.attention.cases import normal, tokens

pytestmark = pytest.mark.usefixtures("merging")


CONFIGS = {
    "learned": NTKConfig(),
    "learned-kv": NTKConfig(per="kv"),
    "anchors": NTKConfig(features="anchors", size=5),
    "anchors-kv": NTKConfig(features="anchors", size=5, per="kv"),
    "elu": NTKConfig(features="elu", units="authors"),
    "elu-kv": NTKConfig(features="elu", units="raw", per="kv"),
}
OPTIONS = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None}


def call(q, k, v, mask=None, scale=8**-0.5):
    return AttentionCall("", q, k, v, mask, True, scale)


def shaken(config, name="llama"):
    model = attach(tiny(name), config, calibration=inputs(name))
    draw = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for state in states_of(model).values():
            for parameter in state.parameters():
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=draw))
    return model


def first_state(config):
    return next(iter(states_of(shaken(CONFIGS[config])).values()))


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("mask", ["none", "bool", "added"])
@pytest.mark.parametrize("scale", [None, 0.7])
def test_folded_weights_give_the_same_as_the_general_path(config, batch, mask, scale):
    state = first_state(config)
    q, k, v = tokens(batch, 4, 2, 1, 7, 8, dtype=torch.float32)
    seen = torch.rand(batch, 1, 1, 7, generator=torch.Generator().manual_seed(0)) < 0.7
    seen[..., -1] = True
    given = {"none": None, "bool": seen, "added": normal(batch, 1, 1, 7, dtype=torch.float32)}[mask]
    with torch.no_grad():
        folded = fold(state, 8**-0.5 if scale is None else scale, q)
        assert folded is not None
        found = decode(call(q, k, v, given, 8**-0.5 if scale is None else scale), folded)
        assert torch.allclose(
            found, ntk_attention(q, k, v, state, mask=given, scale=scale), rtol=1e-4, atol=1e-6
        )


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("batch", [1, 3])
def test_prompts_get_the_same_as_from_the_general_path(config, batch):
    state = first_state(config)
    q, k, v = tokens(batch, 4, 2, 9, 9, 8, dtype=torch.float32)
    with torch.no_grad():
        found = decode(call(q, k, v), fold(state, 8**-0.5, q))
        assert torch.allclose(found, ntk_attention(q, k, v, state, causal=True), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("config", ["learned", "anchors-kv"])
@pytest.mark.parametrize("length", [1, 7])
def test_other_precisions(dtype, config, length):
    state = first_state(config).to(torch.float64 if dtype == torch.float64 else torch.float32)
    q, k, v = tokens(2, 4, 2, length, 7, 8, dtype=dtype)
    with torch.no_grad():
        folded = fold(state, 8**-0.5, q)
        found = decode(call(q, k, v), folded)
    assert found.dtype == dtype
    with torch.no_grad():
        assert torch.allclose(
            found,
            ntk_attention(q, k, v, state, causal=length > 1),
            rtol=2e-2 if dtype == torch.bfloat16 else 1e-9,
        )


@pytest.mark.parametrize("config", CONFIGS)
def test_a_model_of_more_precision_than_its_state_decodes(config):
    model, given = attach(tiny("llama").double(), CONFIGS[config]), inputs("llama", side="left")
    assert {state.Z.dtype for state in states_of(model).values()} == {torch.float32}
    assert torch.equal(
        model.generate(**given, **OPTIONS), model.generate(**given, **OPTIONS, use_cache=False)
    )


@pytest.mark.parametrize(
    "state",
    [
        PrefixState.zero(Elu(4), 2),
        PrefixState(Elu(4), torch.ones(2, 4, 4), torch.eye(4)[:2] * torch.tensor([[0.0], [1.0]])),
        PrefixState.zero(Anchors(torch.zeros(2, 3, 4)), 2),
        PrefixState(
            Anchors(torch.zeros(2, 2, 4)), torch.ones(2, 2, 4), torch.tensor([[0.0, 1.0], [1.0, 1.0]])
        ),
        PrefixState(Anchors(torch.zeros(2, 2, 4), softcap=2.0), torch.ones(2, 2, 4), torch.ones(2, 2)),
        PrefixState.zero(Learned.draw(4, 3, seed=0, heads=2, activation="gelu"), 2),
        PrefixState(Learned.draw(4, 3, seed=0, activation="gelu"), torch.ones(2, 3, 4), torch.ones(2, 3)),
    ],
)
def test_what_cannot_be_folded_is_left_to_the_general_path(state):
    assert fold(state, 0.5, torch.zeros(1, 4, 1, 4)) is None


def test_elu_features_that_vanish_leave_the_tokens_alone():
    state = PrefixState(Elu(4), torch.ones(1, 4, 4), torch.ones(1, 4))
    q, k, v = tokens(1, 1, 1, 1, 3, 4, dtype=torch.float32)
    with torch.no_grad():
        alone = decode(call(q * 0 - 1e4, k * 0, v), fold(state, 0.5, q))
        assert torch.allclose(alone, v.mean(dim=2, keepdim=True))


def test_only_plain_steps_are_taken():
    q, k, v = tokens(1, 4, 2, 1, 6, 8, dtype=torch.float32)
    plain = call(q, k, v)
    assert not is_plain(plain)
    with torch.no_grad():
        assert is_plain(plain)
        assert not is_plain(call(q, k, v[..., :4]))
        for option in ({"dropout": 0.1}, {"softcap": 5.0}, {"bias": q}):
            assert not is_plain(plain._replace(**option))
        with torch.autocast("cpu"):
            assert not is_plain(plain)


def test_what_is_folded_serves_the_next_query_of_its_text_only():
    q, k, v = tokens(1, 4, 2, 1, 6, 8, dtype=torch.float32)
    state, next_query = first_state(next(iter(CONFIGS))), call(q, k, v)
    with torch.no_grad():
        folded = Folded.of(state, 8**-0.5, q)
        assert folded.serves(next_query)
        assert not folded.serves(next_query._replace(q=q.repeat(1, 1, 2, 1)))
        assert not folded.serves(next_query._replace(k=k[:, :, :1]))
        assert not folded.serves(next_query._replace(dropout=0.1))
    assert not folded.serves(next_query)
    with torch.no_grad():
        state.Z.add_(1)
        assert not folded.serves(next_query)


@pytest.mark.parametrize("config", CONFIGS)
def test_generation_uses_them(config):
    model, given = shaken(CONFIGS[config]), inputs("llama", side="left")
    found = model.generate(**given, **OPTIONS)
    slot = slot_of(model.model.layers[0].self_attn)
    assert isinstance(slot.folded, Folded)
    assert slot.folded.alone is not None
    assert torch.equal(found, model.generate(**given, **OPTIONS, use_cache=False))


def logits(model, **given):
    with torch.no_grad():
        return model(**given).logits


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("case", ["prompt", "padded", "continued", "changed"])
def test_texts_without_gradients_get_what_those_with_gradients_get(config, case):
    """With gradients the general path is taken."""
    model, given = shaken(CONFIGS[config]), dict(inputs("llama", side="left"))
    if case != "padded":
        given = {"input_ids": given["input_ids"]}
    folds = slot_of(model.model.layers[0].self_attn)
    found = logits(model, **given)
    assert (folds.folded is None) == (case == "padded")
    if case == "continued":
        with torch.no_grad():
            past = model(input_ids=given["input_ids"][:, :2], use_cache=True).past_key_values
        found[:, 2:] = logits(model, input_ids=given["input_ids"][:, 2:], past_key_values=past)
    if case == "changed":
        for state in states_of(model).values():
            change_behind_the_back(state)
        found = logits(model, **given)
    seen = given["attention_mask"].bool() if case == "padded" else slice(None)
    assert torch.allclose(found[seen], model(**given).logits[seen], atol=1e-5)


def change_in_place(state):
    with torch.no_grad():
        state.Z.mul_(-3)


def change_behind_the_back(state):
    state.Z.data.mul_(-3)


def change_the_parameter(state):
    state.Z = torch.nn.Parameter(state.Z.detach() * -3)


@pytest.mark.parametrize("change", [change_in_place, change_behind_the_back, change_the_parameter])
def test_weights_changed_between_two_texts_are_seen(change):
    model, given = shaken(CONFIGS["learned"]), inputs("llama", side="left")
    model.generate(**given, **OPTIONS)
    for state in states_of(model).values():
        change(state)
    assert torch.equal(
        model.generate(**given, **OPTIONS), model.generate(**given, **OPTIONS, use_cache=False)
    )


def test_weights_changed_within_a_text_are_seen():
    model, given = shaken(CONFIGS["learned"]), {"input_ids": inputs("llama")["input_ids"][:1]}
    with torch.no_grad():
        past = model(**given, use_cache=True).past_key_values
        new = torch.tensor([[7]])
        model(input_ids=new, past_key_values=copy.deepcopy(past))
        for state in states_of(model).values():
            change_in_place(state)
        cached = model(input_ids=new, past_key_values=copy.deepcopy(past)).logits
        slot = slot_of(model.model.layers[0].self_attn)
        slot.folded = None
        assert torch.equal(cached, model(input_ids=new, past_key_values=copy.deepcopy(past)).logits)


def test_switching_adapters_and_copying_drop_them():
    model, given = shaken(CONFIGS["learned"]), inputs("llama", side="left")
    model.generate(**given, **OPTIONS)
    slot = slot_of(model.model.layers[0].self_attn)
    assert slot_of(copy.deepcopy(model).model.layers[0].self_attn).folded is None
    attach(model, NTKConfig(), "other")
    assert slot.folded is None
    activate(model, "default", "other")
    assert torch.equal(
        model.generate(**given, **OPTIONS), model.generate(**given, **OPTIONS, use_cache=False)
    )


def test_a_state_that_starts_at_zero_decodes_as_the_base_model():
    model, given = (
        tiny("llama").requires_grad_(False),
        inputs("llama", side="left"),
    )  # torch has other kernels else
    bare = model.generate(**given, **OPTIONS, output_scores=True, return_dict_in_generate=True)
    attach(model, NTKConfig(share=0))
    assert all(type(state) is CalibratedState for state in states_of(model).values())
    found = model.generate(**given, **OPTIONS, output_scores=True, return_dict_in_generate=True)
    assert all(torch.equal(one, two) for one, two in zip(found.scores, bare.scores, strict=True))
