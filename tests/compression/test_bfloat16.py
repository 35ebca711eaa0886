"""Products in bfloat16 beside those in float32."""

import pytest
import torch
from torch import nn

from attangent.compression import bfloat16
from attangent.compression.bfloat16 import fast_products, forget


def both(model, x):
    """What a model gives, plainly and with fast products."""
    plain = model(x)
    with fast_products(model):
        return plain, model(x)


@pytest.mark.parametrize("bias", [False, True])
def test_fast_products_and_their_gradients_have_three_digits(monkeypatch, bias):
    monkeypatch.setattr(bfloat16, "has_fast_products", lambda: True)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 256, bias=bias)).requires_grad_(False)
    x = torch.randn(5, 256, requires_grad=True)
    plain, fast = both(model, x)
    slopes = [torch.autograd.grad(found.square().sum(), x)[0] for found in (plain, fast)]
    for exact, found in ((plain, fast), slopes):
        assert found.dtype == torch.float32
        error = (found - exact).norm() / exact.norm()
        assert 0 < error < 5e-3


def test_small_layers_and_everything_afterwards_are_as_before(monkeypatch):
    monkeypatch.setattr(bfloat16, "has_fast_products", lambda: True)
    model, x = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 8)), torch.randn(3, 256)
    hidden = model[:2](x)
    with fast_products(model):
        assert torch.equal(model[2](hidden), nn.functional.linear(hidden, model[2].weight, model[2].bias))
        assert not torch.equal(model[:2](x), hidden)
    assert torch.equal(model[:2](x), hidden)
    assert all("forward" not in vars(layer) for layer in model)


def test_nothing_changes_on_a_processor_without_them(monkeypatch):
    monkeypatch.setattr(bfloat16, "has_fast_products", lambda: False)
    plain, fast = both(nn.Sequential(nn.Linear(256, 256)), torch.randn(3, 256))
    assert torch.equal(plain, fast)


def test_weights_are_converted_once(monkeypatch):
    monkeypatch.setattr(bfloat16, "has_fast_products", lambda: True)
    model, x, halved = nn.Sequential(nn.Linear(256, 256)), torch.randn(3, 256), {}
    with fast_products(model, halved):
        first = model(x)
    weight = halved[model[0]]
    with fast_products(model, halved):
        assert torch.equal(model(x), first)
    assert halved == {model[0]: weight}
    assert weight.dtype == torch.bfloat16


def test_a_weight_that_was_paged_out_has_the_same_values(tmp_path, monkeypatch):
    monkeypatch.setattr(bfloat16, "has_fast_products", lambda: True)
    values = torch.arange(300_000, dtype=torch.float32)
    values.numpy().tofile(tmp_path / "weight")
    mapped = torch.from_file(str(tmp_path / "weight"), size=len(values))
    for weight in (mapped[5:299_005], values[:299_000]):
        before = weight.clone()
        model = nn.Sequential(nn.Linear(1000, 299))
        model[0].weight.data = weight.view(299, 1000)
        halved = {}
        with fast_products(model, halved):
            pass
        forget(halved)
        assert not halved
        assert torch.equal(model[0].weight.flatten(), before)
