"""Weights by name."""

import pytest
import torch

from attangent import AttangentError
from attangent.papers.p3_two_stage.spectrum_edit import edit_spectrum
from attangent.stages import spectrum
from attangent.stages.spectra.named import named_projections
from tests.stages.models import made


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
