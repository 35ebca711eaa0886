import copy
import math

import pytest
import torch

from attangent.adapters import NTKConfig, activate, attach, states_of
from attangent.adapters.slot import slot_of
from attangent.adapters.states import CalibratedState
from attangent.attention import PrefixState, RaggedState, ntk_attention
from attangent.attention.backends.torch.decode import (
    Folded,
    PrefixAlone,
    decode,
    fold,
    fold_ragged,
    is_plain,
    together,
)
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


def decoded(q, k, v, alone, mask=None, scale=8**-0.5):
    return decode(q, k, v, mask, scale, alone)


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
        found = decoded(q, k, v, folded, given, 8**-0.5 if scale is None else scale)
        assert torch.allclose(
            found, ntk_attention(q, k, v, state, mask=given, scale=scale), rtol=1e-4, atol=1e-6
        )


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("batch", [1, 3])
def test_prompts_get_the_same_as_from_the_general_path(config, batch):
    state = first_state(config)
    q, k, v = tokens(batch, 4, 2, 9, 9, 8, dtype=torch.float32)
    with torch.no_grad():
        found = decoded(q, k, v, fold(state, 8**-0.5, q))
        assert torch.allclose(found, ntk_attention(q, k, v, state, causal=True), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("config", ["learned", "anchors-kv"])
@pytest.mark.parametrize("length", [1, 7])
def test_other_precisions(dtype, config, length):
    state = first_state(config).to(torch.float64 if dtype == torch.float64 else torch.float32)
    q, k, v = tokens(2, 4, 2, length, 7, 8, dtype=dtype)
    with torch.no_grad():
        folded = fold(state, 8**-0.5, q)
        found = decoded(q, k, v, folded)
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
        alone = decoded(q * 0 - 1e4, k * 0, v, fold(state, 0.5, q))
        assert torch.allclose(alone, v.mean(dim=2, keepdim=True))


def test_only_plain_steps_are_taken():
    q, k, v = tokens(1, 4, 2, 1, 6, 8, dtype=torch.float32)
    plain = {"q": q, "k": k, "v": v, "softcap": None, "dropout": 0.0, "bias": None}
    assert not is_plain(**plain)
    with torch.no_grad():
        assert is_plain(**plain)
        for option in ({"v": v[..., :4]}, {"dropout": 0.1}, {"softcap": 5.0}, {"bias": q}):
            assert not is_plain(**plain | option)
        with torch.autocast("cpu"):
            assert not is_plain(**plain)


def test_what_is_folded_serves_the_next_query_of_its_text_only():
    q, k, _v = tokens(1, 4, 2, 1, 6, 8, dtype=torch.float32)
    state, next_query = first_state(next(iter(CONFIGS))), (q, k, 0.0)
    with torch.no_grad():
        folded = Folded.of(state, 8**-0.5, q)
        assert folded.serves(*next_query)
        assert not folded.serves(q.repeat(1, 1, 2, 1), k, 0.0)
        assert not folded.serves(q, k[:, :, :1], 0.0)
        assert not folded.serves(q, k, 0.1)
    assert not folded.serves(*next_query)
    with torch.no_grad():
        state.Z.add_(1)
        assert not folded.serves(*next_query)


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


def ragged(sizes, dim=4):
    keys = [normal(size, dim, seed=i) for i, size in enumerate(sizes)]
    masses = [normal(size, seed=9 + i).abs() for i, size in enumerate(sizes)]
    return RaggedState.of(keys, keys, masses)


def test_anchors_without_mass_are_left_out():
    keys = normal(2, 5, 4)
    state = PrefixState.from_prefix(Anchors(keys), keys[:, :3], keys[:, :3])
    assert (state.k == 0).any()
    q, k, v = tokens(1, 4, 2, 1, 6, 4)
    with torch.no_grad():
        found = decoded(q, k, v, fold(state, 0.5, q), scale=0.5)
        assert torch.allclose(found, ntk_attention(q, k, v, state))


@pytest.mark.parametrize("sizes", [(3, 3), (2, 40), (300, 1), (5, 700)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("length", [1, 5])
def test_heads_of_any_size_give_the_same_as_the_general_path(sizes, dtype, length):
    q, k, v = tokens(2, 4, 2, length, 5, 4, dtype=dtype)
    state = ragged(sizes).to(torch.float64 if dtype == torch.float64 else torch.float32)
    with torch.no_grad():
        found = decoded(q, k, v, fold(state, 0.5, q), scale=0.5)
        wanted = ntk_attention(q, k, v, state, causal=length > 1, scale=0.5)
    assert found.dtype == dtype
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-9, torch.bfloat16: 2e-2}[dtype]
    assert torch.allclose(found, wanted, rtol=tolerance, atol=tolerance)


def test_the_prefix_alone_is_attention_over_its_tokens():
    state, q = ragged((2, 40)), normal(1, 4, 3, 4, seed=5)
    alone = fold_ragged(state, 1.0, 4, torch.float64)
    assert isinstance(alone, PrefixAlone)
    u, level = alone.attend(q)
    for head, (keys, values, masses) in enumerate(state.by_head()):
        rows = slice(2 * head, 2 * head + 2)
        logits = q[:, rows] @ keys.mT / math.sqrt(4) + masses.log()
        torch.testing.assert_close(u[:, rows], logits.softmax(dim=-1) @ values)
        torch.testing.assert_close(level[:, rows], logits.logsumexp(dim=-1, keepdim=True))


def test_a_head_without_mass_or_with_capped_scores_is_left_to_the_general_path():
    state = ragged((2, 40))
    with torch.no_grad():
        state.mass[:2] = 0
    assert fold_ragged(state, 1.0, 4, torch.float32) is None
    keys = [normal(3, 4), normal(5, 4)]
    capped = RaggedState.of(keys, keys, [torch.ones(3), torch.ones(5)], softcap=5.0)
    assert fold_ragged(capped, 1.0, 4, torch.float32) is None


def folded_anchors(seed, q, sizes=None):
    keys = normal(2, 5, 4, seed=seed, dtype=torch.float32)
    if sizes is None:
        state = PrefixState.from_prefix(Anchors(keys), keys, keys)
    else:
        own = [normal(size, 4, seed=seed, dtype=torch.float32) for size in sizes]
        state = RaggedState.of(own, own, [torch.ones(size) for size in sizes])
    return fold(state, 0.5, q)


@pytest.mark.parametrize("length", [1, 3])
@torch.no_grad()
def test_every_row_is_merged_with_its_own_prefix(length):
    q, out = (normal(4, 4, length, 4, seed=seed, dtype=torch.float32) for seed in (1, 2))
    lse = normal(4, 4, length, seed=3, dtype=torch.float32)
    one, two = folded_anchors(4, q), folded_anchors(5, q, (2, 30))
    found = together([([0, 3], one), ([1], None), ([2], two)]).merged(out.clone(), lse, q)
    for row, alone in enumerate([one, None, two, one]):
        at = slice(row, row + 1)
        wanted = out[at] if alone is None else alone.merged(out[at].clone(), lse[at].clone(), q[at].clone())
        torch.testing.assert_close(found[at], wanted)
    assert torch.equal(found[1], out[1])
