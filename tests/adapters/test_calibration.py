import math
from functools import partial

import pytest
import torch

from attangent import AttangentError
from attangent.adapters import (
    NTKConfig,
    attach,
    calibrate,
    states_of,
)
from attangent.adapters.calibration import run_recorded
from attangent.adapters.states import widest
from tests.adapters.models import inputs, tiny


def by_hand(call, attention_mask, heads, causal):
    """mean, scale, level and value scale of each head, and its queries, token by token."""
    q, k, v = (t.double() for t in (call.q, call.k, call.v))
    scale = call.scale
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], dim=1) for t in (k, v))
    x = q * scale * math.sqrt(q.shape[-1])
    group = q.shape[1] // heads
    found = []
    for head in range(heads):
        own = range(head * group, (head + 1) * group)
        rows, levels, values = [], [], []
        for h in own:
            for b in range(len(q)):
                real = attention_mask[b].bool()
                for i in torch.nonzero(real).flatten():
                    seen = real.clone()
                    if causal:
                        seen[i + 1 :] = False
                    rows.append(x[b, h, i])
                    levels.append(torch.logsumexp(scale * k[b, h, seen] @ q[b, h, i], dim=0))
                values.append(v[b, h, real])
        rows = torch.stack(rows)
        deviation = (rows - rows.mean(dim=0)).square().mean().sqrt()
        values = torch.cat(values)
        spread = (values - values.mean(dim=0)).square().mean().sqrt()
        found.append((rows.mean(dim=0), deviation, torch.stack(levels).mean(), spread, rows))
    return [torch.stack(part) for part in zip(*found, strict=True)]


def recorded(model, given):
    """The last attention call of every layer."""
    calls = {}
    run_recorded(model, given, {layer: partial(calls.__setitem__, layer) for layer in states_of(model)})
    return calls


@pytest.mark.parametrize(("name", "causal"), [("llama", True), ("bert", False)])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("per", ["query", "kv"])
def test_units_are_those_of_real_tokens(name, causal, side, per):
    model, given = tiny(name), inputs(name, side=side)
    attach(model, NTKConfig(per=per, features="anchors", damped=0))
    calibrate(model, given)
    calls = recorded(model, given)
    for layer, state in states_of(model).items():
        mean, scale, level, values, _ = by_hand(calls[layer], given["attention_mask"], state.heads, causal)
        assert torch.allclose(state.features.mean.double(), mean, atol=1e-5)
        assert torch.allclose(state.features.scale.double(), scale / math.sqrt(state.features.dim), rtol=1e-5)
        assert torch.allclose(state.features.level.double(), level, rtol=1e-4, atol=1e-5)
        assert torch.allclose(state.value_scale.double(), values, rtol=1e-4)


@pytest.mark.parametrize("per", ["query", "kv"])
@pytest.mark.parametrize("features", ["learned", "anchors"])
def test_features_see_queries_whose_widest_directions_are_like_the_others(per, features):
    given = inputs("llama")
    model = attach(tiny("llama"), NTKConfig(features, per=per), calibration=given)
    calls = recorded(model, given)
    for layer, state in states_of(model).items():
        *_, rows = by_hand(calls[layer], given["attention_mask"], state.heads, True)
        inner, centred = state.features.inner, rows - rows.mean(dim=1, keepdim=True)
        units = centred / state.features.scale.double()[:, None, None]
        if features == "anchors":
            units = units / math.sqrt(inner.dim)
        seen = damped(units, inner.damping.double())
        widths, variances = widths_of(centred), widths_of(seen)
        assert torch.allclose(variances.mean(dim=1), torch.ones(state.heads).double(), rtol=1e-4)
        rest = widths[:, :-2] / widths[:, :-2].mean(dim=1, keepdim=True)
        expected = torch.cat([rest, torch.ones_like(rest[:, :2])], dim=1).sort().values
        assert torch.allclose(variances, expected, rtol=1e-3, atol=1e-4)
        if features == "anchors":
            scores = inner.scores(math.sqrt(inner.dim) * units)
            assert torch.allclose(scores, seen @ inner.keys.double().mT, atol=1e-6)
        else:
            assert torch.allclose(inner._hidden(units), seen @ inner.weight.double().mT, atol=1e-6)


def test_anchors_of_a_prompt_are_not_damped():
    given = inputs("llama")
    config = NTKConfig("anchors", size=4, init="text")
    model = attach(tiny("llama"), config, calibration=given, prompt={"input_ids": given["input_ids"][:1]})
    assert all(state.features.inner.damping is None for state in states_of(model).values())


def test_damping_may_be_left_out():
    given = inputs("llama")
    model = attach(tiny("llama"), NTKConfig(damped=0), calibration=given)
    calls = recorded(model, given)
    for layer, state in states_of(model).items():
        _, scale, *_ = by_hand(calls[layer], given["attention_mask"], state.heads, True)
        assert state.features.inner.damping is None
        assert torch.allclose(state.features.scale.double(), scale, rtol=1e-5)


def damped(x, R):
    return x - (x @ R.mT) @ R


def widths_of(x):
    """The variances of centred rows along their principal directions, smallest first."""
    return torch.linalg.eigvalsh(x.mT @ x / x.shape[1])


def test_few_examples_leave_the_directions_they_lack_as_they_are():
    covariance = torch.diag(torch.tensor([4.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])).double()[None]
    R, scale = widest(covariance, 2)
    assert torch.isfinite(R).all()
    assert scale.item() == pytest.approx(math.sqrt(1e-3 * 5 / 8))
    nothing, least = widest(torch.zeros(1, 8, 8).double(), 2)
    assert not nothing.any()
    assert least.item() == pytest.approx(1e-6)


def test_several_batches_count_as_one():
    given = inputs("bert")
    halves = [
        {key: value[:1] for key, value in given.items()},
        {key: value[1:] for key, value in given.items()},
    ]
    whole, parts = attach(tiny("bert"), calibration=given), attach(tiny("bert"), calibration=halves)
    for one, two in zip(states_of(whole).values(), states_of(parts).values(), strict=True):
        for name, buffer in one.named_buffers():
            other = dict(two.named_buffers())[name]
            if name.endswith("damping"):  # directions have no sign
                buffer, other = buffer.mT @ buffer, other.mT @ other
            assert torch.allclose(buffer, other, rtol=1e-4, atol=1e-5)


def test_the_share_is_that_of_the_masses_at_a_typical_query():
    """With phi = [1, ...] and Z = 0 the output shrinks by 1/(1 + share) where the logsumexp is typical."""
    given = inputs("bert")
    for share in (0.03, 0.5):
        model = attach(tiny("bert"), NTKConfig(share=share), calibration=given)
        for state in states_of(model).values():
            _, k = state.weights()
            assert torch.allclose(k.sum(dim=1), torch.full((4,), share))


def test_training_mode_and_weights_are_left_alone():
    model, given = tiny("bert").train(), inputs("bert")
    model.bert.pooler.eval()
    weights = {n: p.clone() for n, p in model.named_parameters()}
    attach(model, calibration=given)
    assert model.training
    assert not model.bert.pooler.training
    assert all(torch.equal(p, weights[n]) for n, p in model.named_parameters() if n in weights)


def test_batches_that_miss_a_layer_are_refused():
    model, given = attach(tiny("t5")), inputs("t5")

    def encoder_only(**batch):
        return model.encoder(input_ids=batch["input_ids"])

    model.forward = encoder_only
    with pytest.raises(AttangentError, match=r"never reach layer decoder\.block\.0"):
        calibrate(model, given)


def test_calibrating_a_raw_adapter_changes_nothing():
    model, given = attach(tiny("bert"), NTKConfig(features="elu")), inputs("bert")
    before = {n: t.clone() for n, t in model.state_dict().items()}
    calibrate(model, given)
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())


def ids(*shape, seed=0):
    return torch.randint(3, 61, shape, generator=torch.Generator().manual_seed(seed))


def behind_prompt(model, prompt, tokens):
    with torch.no_grad():
        return model(input_ids=torch.cat([prompt, tokens], dim=1)).logits[:, prompt.shape[1] :]


@pytest.mark.parametrize("units", ["raw", "calibrated"])
@pytest.mark.parametrize("per", ["query", "kv"])
@pytest.mark.parametrize("name", ["llama", "qwen3", "gpt2"])
def test_as_many_anchors_as_tokens_are_the_prompt_itself(name, units, per):
    """Keys and values of every layer are the prompt's own, as if it stood in front."""
    model, prompt, tokens = tiny(name), ids(1, 6), ids(1, 5, seed=1)
    exact = behind_prompt(model, prompt, tokens)
    config = NTKConfig(features="anchors", units=units, size=6, init="text", per=per, position_offset=6)
    calibration = {"input_ids": ids(3, 9, seed=2)} if units == "calibrated" else None
    attach(model, config, prompt={"input_ids": prompt}, calibration=calibration)
    with torch.no_grad():
        found = model(input_ids=tokens).logits
    assert torch.allclose(found, exact, rtol=1e-3, atol=1e-4 * exact.abs().max().item())


def test_fewer_anchors_come_close():
    model, prompt, tokens = tiny("llama"), ids(1, 12), ids(1, 5, seed=1)
    exact = behind_prompt(model, prompt, tokens)
    with torch.no_grad():
        bare = model(input_ids=tokens).logits
    attach(
        model,
        NTKConfig(features="anchors", size=9, init="text", position_offset=12),
        prompt={"input_ids": prompt},
        calibration={"input_ids": prompt},
    )
    with torch.no_grad():
        found = model(input_ids=tokens).logits
    assert (found - exact).abs().mean() < (bare - exact).abs().mean()


def test_other_maps_sum_the_prompt_by_equation_7():
    model = attach(tiny("llama"), NTKConfig(features="elu", init="text"), prompt={"input_ids": ids(1, 30)})
    assert all((state.k > 0).all() and state.Z.abs().max() > 0 for state in states_of(model).values())


def test_a_prompt_shorter_than_the_anchors_is_refused_and_nothing_stays():
    model = tiny("llama")
    with pytest.raises(AttangentError, match="the prompt has 3 tokens"):
        attach(model, NTKConfig(features="anchors", init="text"), prompt={"input_ids": ids(1, 3)})
    assert not any("attangent" in name for name in model.state_dict())
