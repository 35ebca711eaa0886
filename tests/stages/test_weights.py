"""Projections are found where a model keeps them, as matrices (inputs, outputs)."""

import pytest
import torch
from torch import nn

from attangent import AttangentError
from attangent.papers.p3_two_stage.spectrum_edit import edit_spectrum
from attangent.stages import spectrum
from attangent.stages.weights import attention_weights, named_projections
from tests.stages.models import MAKERS, made


@pytest.mark.parametrize("name", MAKERS)
def test_every_layer_is_found_with_its_heads(name):
    blocks = attention_weights(made(name))
    grouped = name in ("llama", "qwen3", "phi3")
    assert [block.layer for block in blocks] == [0, 1]
    for block in blocks:
        assert (block.heads, block.key_heads) == (4, 2 if grouped else 4)
        shapes = {part: tuple(p.weight.shape) for part, p in block.projections.items()}
        wide = block.heads * block.head_size
        assert shapes["q"] == (24, wide)
        assert shapes["o"] == (wide, 24)
        assert shapes["k"] == shapes["v"] == (24, wide // 2 if grouped else wide)


@pytest.mark.parametrize("name", MAKERS)
def test_the_projection_is_what_the_module_computes(name):
    model = made(name)
    block = attention_weights(model)[0]
    for projection in block.projections.values():
        x = torch.randn(3, projection.weight.shape[0])
        bias = 0 if projection.bias is None else projection.bias
        whole = projection.module(x)[:, projection.start : projection.stop]
        torch.testing.assert_close(x @ projection.weight + bias, whole)


def test_joined_projections_do_not_overlap():
    blocks = attention_weights(made("phi3"))
    ends = [(p.start, p.stop) for p in (blocks[0].projections[part] for part in "qkv")]
    assert ends == [(0, 24), (24, 36), (36, 48)]


def test_query_heads_share_keys_in_order():
    block = attention_weights(made("llama"))[0]
    keys = [block.head("k", head)[0] for head in range(4)]
    assert torch.equal(keys[0], keys[1])
    assert torch.equal(keys[2], keys[3])
    assert not torch.equal(keys[1], keys[2])


def test_views_write_to_the_model():
    model = made("gpt2")
    attention_weights(model, [1])[0].projections["v"].weight.zero_()
    stored = model.transformer.h[1].attn.c_attn.weight
    assert (stored[:, 48:] == 0).all()
    assert (stored[:, :48] != 0).any()


@pytest.mark.parametrize("layers", [[2], [-1], []])
def test_layers_that_are_not_there_are_refused(layers):
    with pytest.raises(AttangentError, match="expected some of 0 to 1"):
        attention_weights(made("bert"), layers)


def test_a_model_without_attention_is_refused():
    with pytest.raises(AttangentError, match="no attention was found in Linear"):
        attention_weights(nn.Linear(2, 2))


def test_weights_that_are_not_numbers_in_memory_are_refused():
    with torch.device("meta"):
        model = MAKERS["bert"]()
    with pytest.raises(AttangentError, match="without quantisation"):
        attention_weights(model)


@pytest.mark.parametrize(("name", "modules"), [("gpt2", 2), ("llama", 3), ("bert", 2)])
def test_mlp_is_every_linear_module_outside_attention(name, modules):
    found = named_projections(made(name), "mlp")
    assert [layer for layer, _, _ in found].count(0) == modules
    assert not any("attn" in module or "attention" in module for _, module, _ in found)


def test_a_module_is_edited_by_the_end_of_its_name():
    model = made("llama")
    weight = model.model.layers[1].mlp.down_proj.weight
    before, other = weight.detach().clone(), model.model.layers[1].mlp.up_proj.weight.detach().clone()
    with edit_spectrum(model, "largest", k=2, targets=["mlp.down_proj"], layers=[1]):
        assert torch.linalg.matrix_rank(weight.detach(), tol=1e-4) == 2
        assert torch.equal(model.model.layers[1].mlp.up_proj.weight, other)
    assert torch.equal(weight, before)
    assert set(spectrum(model, ["mlp.down_proj"]).module) == {
        "model.layers.0.mlp.down_proj",
        "model.layers.1.mlp.down_proj",
    }


def test_what_is_not_there_is_named():
    with pytest.raises(AttangentError, match=r"named 'magic'.*end in .*down_proj"):
        named_projections(made("llama"), "magic")
    with pytest.raises(AttangentError, match=r"in the layers \[7\]"):
        named_projections(made("llama"), "mlp", [7])
