"""Every property of an adapter on every kind of model."""

import copy

import pytest
import torch

from attangent.adapters import (
    NTKConfig,
    activate,
    attach,
    delete,
    detach,
    disabled,
    load_adapter,
    save_adapter,
    states_of,
)
from tests.adapters.models import DECODERS, GENERATING, MODELS, inputs, tiny, valid_logits
from tests.adapters.naive import use_naive_attention

CONFIGS = {
    "learned": NTKConfig(),
    "anchors": NTKConfig(features="anchors", size=5, per="kv"),
    "elu": NTKConfig(features="elu"),
}


@pytest.fixture(scope="module", params=MODELS)
def name(request):
    return request.param


@pytest.fixture
def model(name, tiny_models):
    return copy.deepcopy(tiny_models[name])


@pytest.fixture(scope="module")
def tiny_models():
    return {name: tiny(name) for name in MODELS}


def disturb(model, adapter="default", seed=1):
    """Move every trained number of an adapter, as training would."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for state in states_of(model, adapter).values():
            for parameter in state.parameters():
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=draw).to(parameter))
    return model


def attached(name, model, config="learned"):
    return disturb(attach(model, CONFIGS[config], calibration=inputs(name)))


def answers(model, given):
    """Logits without a graph: models choose another path where their own weights ask for gradients."""
    with torch.no_grad():
        return model(**given).logits


def grads(model):
    return {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(
    "config", [NTKConfig(share=0), NTKConfig(features="elu"), NTKConfig(features="anchors", share=0)]
)
def test_a_zero_state_is_the_base_model_bit_for_bit(name, model, config):
    given = inputs(name)
    before = answers(model, given)
    attach(model, config)
    assert torch.equal(answers(model, given), before)


def test_only_the_adapter_gets_gradients(name, model):
    given = inputs(name)
    attach(model, CONFIGS["learned"], calibration=given)
    valid_logits(name, model, given).square().mean().backward()
    trained = {n for n, p in model.named_parameters() if p.requires_grad}
    found = grads(model)
    assert set(found) == trained
    assert all("attangent_prefix" in parameter for parameter in trained)
    assert all(found[n].abs().max() > 0 for n in trained if n.endswith("Z"))


@pytest.mark.parametrize(
    ("config", "side"), [*((config, "right") for config in CONFIGS), ("learned", "left")]
)
def test_forward_and_gradient_equal_the_written_out_formula(name, model, config, side):
    given = inputs(name, side=side)
    attached(name, model, config)
    naive = use_naive_attention(copy.deepcopy(model).double())
    ours, theirs = (valid_logits(name, m, double(given, m)) for m in (model, naive))
    assert torch.allclose(ours.double(), theirs, rtol=1e-4, atol=1e-4 * theirs.abs().max().item())
    ours.square().mean().backward()
    theirs.square().mean().backward()
    exact = grads(naive)
    for parameter, grad in grads(model).items():
        size = exact[parameter].abs().max().item()
        assert torch.allclose(grad.double(), exact[parameter], rtol=1e-3, atol=1e-3 * size), parameter


RAW = {
    "elu": NTKConfig(features="elu"),
    "taylor": NTKConfig(features="taylor"),
    "anchors": NTKConfig(features="anchors", units="raw", size=3),
    "learned": NTKConfig(units="raw", size=4),
    "calibrated": NTKConfig(),
}


PADDED = [(which, config) for which in ("llama", "gemma2") for config in RAW]
PADDED += [(which, "calibrated") for which in DECODERS if which not in ("llama", "gemma2")]


@pytest.mark.parametrize(("which", "config"), PADDED)
@pytest.mark.parametrize("moved", [False, True], ids=["first step", "later"])
def test_left_padded_batches_train_as_their_rows_alone(which, config, moved, tiny_models):
    """The loss asks the last pad token for the first word, as labels of a shifted text do."""
    model = attach(copy.deepcopy(tiny_models[which]), RAW[config])
    model = disturb(model) if moved else model
    given = inputs(which, side="left")

    def loss(ids, mask):
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
        logits = model(input_ids=ids, attention_mask=mask, position_ids=positions).logits[:, :-1]
        labels = ids.masked_fill(mask == 0, -100)[:, 1:]
        return torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels, reduction="sum")

    loss(given["input_ids"], given["attention_mask"]).backward()
    together = {n: grad.clone() for n, grad in grads(model).items()}
    model.zero_grad()
    for ids, mask in zip(given["input_ids"], given["attention_mask"].bool(), strict=True):
        loss(ids[mask][None], torch.ones(1, int(mask.sum()), dtype=torch.long)).backward()
    for n, grad in grads(model).items():
        assert torch.allclose(together[n], grad, rtol=1e-3, atol=1e-3 * grad.abs().max().item()), n


def double(given, model):
    dtype = next(model.parameters()).dtype
    return {n: t.to(dtype) if t.is_floating_point() else t for n, t in given.items()}


def test_checkpointing_gives_equal_gradients(name, model):
    given = inputs(name)
    attached(name, model)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    without_dropout(model)
    model.train()
    valid_logits(name, model, given).square().mean().backward()
    plain = {n: g.clone() for n, g in grads(model).items()}
    model.zero_grad()
    model.gradient_checkpointing_enable()
    valid_logits(name, model, given).square().mean().backward()
    again = grads(model)
    assert set(again) == set(plain)
    for parameter, grad in plain.items():
        assert torch.allclose(again[parameter], grad, rtol=1e-4, atol=1e-5 * grad.abs().max()), parameter


def without_dropout(model):
    for module in model.modules():
        for word in ("attention_dropout", "dropout", "activation_dropout", "attn_dropout"):
            if isinstance(getattr(module, word, None), float):
                setattr(module, word, 0.0)
        if hasattr(module, "layerdrop"):
            module.layerdrop = 0.0


@pytest.mark.parametrize("which", GENERATING)
@pytest.mark.parametrize("how", [{}, {"num_beams": 3}], ids=["greedy", "beams"])
def test_cached_generation_equals_uncached(which, how, tiny_models):
    model = attached(which, copy.deepcopy(tiny_models[which]))
    given = {n: t for n, t in inputs(which, side="left").items() if not n.startswith("decoder")}
    options = {"max_new_tokens": 5, "do_sample": False, "eos_token_id": None, **how}
    options |= {"return_dict_in_generate": True, "output_logits": True}
    cached, uncached = (model.generate(**given, **options, use_cache=cache) for cache in (True, False))
    assert torch.equal(cached.sequences, uncached.sequences)
    assert torch.allclose(torch.stack(cached.logits), torch.stack(uncached.logits), rtol=1e-3, atol=1e-4)
    with disabled(model):
        bare = model.generate(**given, **options)
    assert not torch.allclose(bare.logits[0], cached.logits[0], rtol=1e-3, atol=1e-3)


def test_files_bring_back_the_same_answers(name, model, tmp_path):
    given = inputs(name)
    attached(name, model)
    save_adapter(model, tmp_path)
    fresh = load_adapter(tiny(name), tmp_path)
    assert torch.equal(answers(fresh, given), answers(model, given))


def test_disabled_and_detached_models_are_the_base_model(name, model):
    given = inputs(name)
    before = answers(model, given)
    weights = {n: t.clone() for n, t in model.state_dict().items()}
    trainable = [n for n, p in model.named_parameters() if p.requires_grad]
    attached(name, model)
    with disabled(model):
        assert torch.equal(answers(model, given), before)
    assert not torch.equal(answers(model, given), before)
    detach(model)
    assert torch.equal(answers(model, given), before)
    after = model.state_dict()
    assert list(after) == list(weights)
    assert all(torch.equal(after[n], weights[n]) for n in weights)
    assert [n for n, p in model.named_parameters() if p.requires_grad] == trainable
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_two_adapters_alone_and_together(name, model):
    given = inputs(name)
    attached(name, model, "learned")
    one = answers(model, given)
    disturb(attach(model, CONFIGS["anchors"], "second", calibration=given), "second")
    two = answers(model, given)
    activate(model, "default", "second")
    both = answers(model, given)
    naive = use_naive_attention(copy.deepcopy(model).double())
    expected = naive(**double(given, naive)).logits
    tolerance = 1e-4 * expected.abs().max().item()
    valid = slice(None) if "attention_mask" not in given or both.ndim == 2 else slice(0, 1)
    assert torch.allclose(both[valid].double(), expected[valid], rtol=1e-4, atol=tolerance)
    activate(model, "default")
    assert torch.equal(answers(model, given), one)
    delete(model, "default")
    activate(model, "second")
    assert torch.equal(answers(model, given), two)
    assert not torch.allclose(one, two)


def test_a_deep_copy_lives_its_own_life(name, model):
    given = inputs(name)
    attached(name, model)
    before = answers(model, given)
    twin = copy.deepcopy(model)
    assert torch.equal(answers(twin, given), before)
    disturb(twin, seed=5)
    assert torch.equal(answers(model, given), before)
    with disabled(twin):
        assert torch.equal(answers(model, given), before)
    detach(twin)
    assert torch.equal(answers(model, given), before)
    assert torch.equal(answers(twin, given), answers(tiny(name), given))


def test_half_precision(name, model):
    given = inputs(name)
    attached(name, model)
    exact = valid_logits(name, model, given)
    half = model.to(torch.bfloat16)
    logits = valid_logits(name, half, double(given, half))
    assert logits.dtype == torch.bfloat16
    assert (logits.float() - exact).abs().mean() < 0.1 * exact.abs().mean()
