"""Methods and their settings: what each adds, trains and leaves alone."""

import pytest
import torch

from attangent import AttangentError
from attangent.adapters.config import NTKConfig
from attangent.tuning.methods import Method, adapt, default_settings
from attangent.tuning.tasks import trained_sizes
from tests.adapters.models import inputs, tiny

HEAD = 32 * 3 + 3
QUERIES = {"target_modules": ["query"]}


def adapted(name, model="bert", kind="classification", **options):
    return adapt(tiny(model), Method(name, **options), kind, 0, [inputs(model)])


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("head", {}, 0),
        ("lora", {"rank": 4}, 2 * 2 * (32 * 4 * 2)),
        ("lora", {"rank": 4, "top": 1}, 2 * (32 * 4 * 2)),
        ("prefix", {"tokens": 5}, 2 * 2 * 5 * 32),
        ("ntk", {"ntk": NTKConfig(features="elu", units="authors")}, 2 * 4 * (8 * 8 + 8)),
        ("ntk", {"ntk": NTKConfig(features="elu", units="authors"), "top": 1}, 4 * (8 * 8 + 8)),
    ],
)
def test_numbers_trained(name, options, expected):
    assert trained_sizes(adapted(name, **options)) == {"parameters": expected, "head_parameters": HEAD}


def test_full_trains_everything():
    model = adapted("full")
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_both_together_train_both_and_one_head():
    sizes = trained_sizes(adapted("ntk+lora"))
    parts = [trained_sizes(adapted(name))["parameters"] for name in ("ntk", "lora")]
    assert sizes == {"parameters": sum(parts), "head_parameters": HEAD}


@pytest.mark.parametrize("name", ["ntk", "lora", "prefix", "head", "ntk+lora"])
def test_the_base_is_frozen_and_what_trains_gets_a_gradient(name):
    model = adapted(name)
    given = {**inputs("bert"), "labels": torch.tensor([0, 2, 1])[: len(inputs("bert")["input_ids"])]}
    model(**given).loss.backward()
    for path, parameter in model.named_parameters():
        assert (parameter.grad is not None) == parameter.requires_grad, path
        assert not (parameter.requires_grad and path.endswith("word_embeddings.weight"))


def test_decoders_and_vision():
    assert trained_sizes(adapted("lora", "llama", "causal-lm", rank=2))["head_parameters"] == 0
    assert trained_sizes(adapted("ntk", "llama", "causal-lm"))["parameters"] > 0
    assert trained_sizes(adapted("ntk", "vit", "image-classification"))["head_parameters"] == HEAD


def test_the_seed_decides_the_start():
    first, again, other = (adapt(tiny("bert"), Method("lora"), "classification", seed) for seed in (0, 0, 1))
    weights = [dict(m.named_parameters()) for m in (first, again, other)]
    name = next(path for path in weights[0] if "lora_A" in path)
    assert torch.equal(weights[0][name], weights[1][name])
    assert not torch.equal(weights[0][name], weights[2][name])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "adapter"}, "method is 'adapter'"),
        ({"rank": 0}, "rank"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0"),
        ({"top": 1, "ntk": {"layers": [-1]}}, "top and ntk.layers are both set"),
        ({"size": 3}, "unknown settings size"),
        ({"ntk": {"sise": 3}}, "unknown settings sise"),
        ({"name": "head", "rank": 8}, "rank has no effect on the method head; .* reads it: lora, ntk\\+lora"),
        ({"name": "lora", "tokens": 16}, "tokens has no effect on the method lora; .* reads it: prefix"),
        ({"name": "prefix", "top": 1}, "top has no effect on the method prefix"),
        ({"name": "lora", "ntk": {"size": 4}}, "ntk has no effect on the method lora; .* reads it: ntk,"),
        ({"name": "full", "peft": {"r": 2}}, "peft has no effect on the method full"),
        ({"name": "probe", "learning_rate": 0.1}, "learning_rate has no effect on the method probe"),
        ({"name": "lora", "rank": 4, "peft": {"r": 2}}, r"rank has no effect if \[method.peft\] replaces it"),
        ({"name": "ntk+lora", "rank": 4, "peft": {"peft_type": "IA3"}}, "rank has no effect if"),
        ({"name": "ntk", "ntk": {"seed": 3}}, r"ntk.seed has no effect; seed in \[training\]"),
    ],
)
def test_settings_that_are_refused(settings, message):
    with pytest.raises(AttangentError, match=message):
        Method.from_dict(settings)


def test_a_setting_that_the_method_ignores_is_refused_in_python_too():
    with pytest.raises(AttangentError, match="rank has no effect on the method head"):
        Method("head", rank=4)


@pytest.mark.parametrize(
    ("model", "kind", "method", "message"),
    [
        ("llama", "causal-lm", Method("head"), "no classifier to train"),
        ("llama", "classification", Method("lora"), "no module called"),
        ("vit", "image-classification", Method("prefix"), "no prefix tuning for vision"),
        (
            "bert",
            "classification",
            Method("peft", top=1, peft={"peft_type": "IA3"}),
            "top has no effect on IA3",
        ),
        ("bert", "classification", Method("lora", top=1, peft=QUERIES), "top has no effect on LORA"),
    ],
)
def test_what_a_model_cannot_do_is_said(model, kind, method, message):
    with pytest.raises(AttangentError, match=message):
        adapt(tiny(model), method, kind, 0)


def test_default_rates():
    assert Method("lora").rate == 2e-3
    assert Method("ntk", top=2).rate == 0.01
    assert Method("ntk").rate == pytest.approx(0.01)
    assert Method("ntk", ntk=NTKConfig(features="anchors")).rate == 0.03
    assert Method("ntk", ntk=NTKConfig(features="elu")).rate == 1e-3
    assert Method("ntk", learning_rate=0.5).rate == 0.5


@pytest.mark.parametrize(
    ("kind", "name"), [("classification", "lora"), ("regression", "lora"), ("causal-lm", "lora")]
)
def test_the_default_method_of_texts(kind, name):
    assert Method.from_dict(default_settings(kind)).name == name


def test_images_get_rslora_of_rank_8():
    method = Method.from_dict(default_settings("image-classification"))
    assert (method.name, method.rank, method.peft) == ("lora", 8, {"use_rslora": True})
