"""The transformer against torch.nn, its tokenisation, its training."""

import pytest
import torch
from torch import nn

from attangent._core.errors import AttangentError
from attangent.icl import Dictionary, RidgeLimit
from attangent.papers.p4_in_context.transformer import (
    InContextTransformer,
    TransformerConfig,
    TransformerLayer,
    TransformerTrainer,
    batch_loss,
)

SMALL = TransformerConfig(layers=2, d_model=16, d_ff=32, heads=4)


def reference(layer: TransformerLayer, config: TransformerConfig) -> nn.TransformerEncoderLayer:
    """torch's own post-norm layer with the same weights."""
    theirs = nn.TransformerEncoderLayer(
        config.d_model, config.heads, config.d_ff, dropout=0.0, batch_first=True, dtype=torch.float64
    )
    ours = layer.state_dict()
    names = {
        "self_attn.out_proj": "out",
        "linear1": "up",
        "linear2": "down",
        "norm1": "norm1",
        "norm2": "norm2",
    }
    state = {f"{a}.{part}": ours[f"{b}.{part}"] for a, b in names.items() for part in ("weight", "bias")}
    for part in ("weight", "bias"):
        parts = [ours[f"{name}.{part}"] for name in ("query", "key", "value")]
        state[f"self_attn.in_proj_{part}"] = torch.cat(parts)
    theirs.load_state_dict(state)
    return theirs


def test_a_layer_is_torchs_layer_with_queries_masked():
    torch.manual_seed(0)
    layer = TransformerLayer(SMALL).double()
    x = torch.randn(3, 9, 16, dtype=torch.float64)
    mask = torch.zeros(9, 9, dtype=torch.bool)
    mask[:, 5:] = True
    wanted = reference(layer, SMALL)(x, src_mask=mask)
    torch.testing.assert_close(layer(x, 5), wanted, rtol=1e-10, atol=1e-10)


def test_the_whole_model_is_torchs_stack():
    model = InContextTransformer(d=6, m=4, config=SMALL, seed=1).double()
    dictionary = Dictionary.random(K=9, d=6, m=4, N=5, tau=0.1)
    labels = dictionary.prompts(3).shown
    y = torch.cat([labels / 2, torch.zeros(3, 4)], dim=1)
    x = model.embed(torch.cat([dictionary.tokens.expand(3, -1, -1), y[:, :, None]], dim=2))
    mask = torch.zeros(9, 9, dtype=torch.bool)
    mask[:, 5:] = True
    for layer in model.layers:
        assert isinstance(layer, TransformerLayer)
        x = reference(layer, SMALL)(x, src_mask=mask)
    wanted = (model.read(x)[:, :, 0] * 2).detach()
    torch.testing.assert_close(model.predict(dictionary, labels), wanted, rtol=1e-10, atol=1e-10)


def test_a_query_does_not_see_other_queries_nor_the_order_of_the_prompt():
    model = InContextTransformer(d=6, m=4, config=SMALL).double()
    D = Dictionary.random(K=9, d=6, m=4, N=5, tau=0.1)
    labels = D.prompts(3).shown
    whole = model.predict(D, labels)
    with torch.no_grad():
        alone = model(D.tokens[:5], labels, D.tokens[7:8])[:, 5]
        order = torch.tensor([3, 1, 4, 0, 2])
        shuffled = model(D.tokens[order], labels[:, order], D.tokens[7:8])[:, 5]
    torch.testing.assert_close(alone, whole[:, 7])
    torch.testing.assert_close(shuffled, whole[:, 7])


def test_the_paper_sizes_are_the_default():
    model = InContextTransformer(d=100, m=20)
    assert (model.config.d_model, model.config.d_ff, len(model.layers)) == (256, 512, 4)
    layer = 4 * (256 * 256 + 256) + 256 * 512 * 2 + 512 + 256 + 4 * 256
    assert sum(p.numel() for p in model.parameters()) == 101 * 256 + 256 + 4 * layer + 257


def test_seeds_decide_the_start_and_nothing_else_does():
    first, again, other = (InContextTransformer(6, 4, SMALL, seed=s) for s in (1, 1, 2))
    assert torch.equal(first.embed.weight, again.embed.weight)
    assert not torch.equal(first.embed.weight, other.embed.weight)


@pytest.mark.parametrize("prompts", [None, 300])
def test_training_brings_it_nearer_to_the_limit(prompts):
    dictionary = Dictionary.random(K=8, d=6, m=2, N=6, tau=0.01)
    model = InContextTransformer(6, 2, SMALL)
    test = dictionary.prompts(50, seed=7).shown
    before = batch_loss(model, dictionary, dictionary.prompts(200, seed=3).labels).item()
    trainer = TransformerTrainer(steps=150, rate=3e-3, batch=64, prompts=prompts)
    course = trainer.train(model, dictionary, {"in-domain": test})
    after = batch_loss(model, dictionary, dictionary.prompts(200, seed=3).labels).item()
    assert after < 0.6 * before
    assert course.steps.tolist() == [0, 50, 100, 150]
    apart = (model.predict(dictionary, test) - RidgeLimit(dictionary).predict(test)).square().mean().item()
    assert course.inference["in-domain"][-1].item() == pytest.approx(apart, rel=1e-5)


def test_more_heads_cost_more_softmax_and_no_more_products():
    one, two = (TransformerConfig(heads=heads).operations(K=10, N=5) for heads in (4, 8))
    assert two - one == 4 * 20 * 4 * 50


def test_refusals():
    with pytest.raises(AttangentError, match="multiple of heads=3"):
        TransformerConfig(heads=3)
    with pytest.raises(AttangentError, match="layers is 0"):
        TransformerConfig(layers=0)
    with pytest.raises(AttangentError, match="steps is 0"):
        TransformerTrainer(steps=0)
