import copy

import pytest
import torch

from attangent.adapters import (
    NTKConfig,
    attach,
    detach,
)
from attangent.attention import ntk_attention
from tests.adapters.models import inputs, logits, shake, tiny

HOOKED = hasattr(ntk_attention, "__wrapped__")


@pytest.mark.skipif(HOOKED, reason="torch.compile cannot trace checks of shapes; test_ntk.py runs this")
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
