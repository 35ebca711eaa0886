import pytest
import torch

from attangent import AttangentError
from attangent.attention import PrefixState, ntk_attention
from attangent.attention.backends.torch.portable import portable_attention
from attangent.attention.features import Calibrated, Elu, Learned
from attangent.attention.masks import Mask
from tests.attention.cases import make_map, normal, tokens

INNER = [
    "elu",
    "printed",
    "taylor-2",
    "positive-random",
    "anchors",
    "anchors-softcap",
    "learned-elu",
    "learned-gelu",
]


def calibrated(name, dim=4, heads=2, level=0.0):
    mean, scale = normal(heads, dim, seed=7), normal(heads, seed=8).abs() + 0.5
    return Calibrated(make_map(name, dim, heads), mean, scale, normal(heads, seed=9) + level)


@pytest.mark.parametrize("name", INNER)
def test_it_is_the_map_of_centred_and_scaled_inputs(name):
    phi, x = calibrated(name), normal(3, 2, 5, 4)
    expected = phi.inner((x - phi.mean[:, None]) / phi.scale[:, None, None]) * phi.level.exp()[:, None, None]
    assert torch.allclose(phi(x), expected)
    w, shift = phi.evaluate(x, None)
    assert torch.allclose(w * shift.exp(), expected)


@pytest.mark.parametrize("name", INNER)
def test_pullback_is_the_gradient(name):
    phi, x = calibrated(name), normal(3, 2, 5, 4).requires_grad_()
    w, shift = phi.evaluate(x, None)
    grad_w = normal(*w.shape, seed=3)
    wanted = torch.autograd.grad(phi(x), [x, *phi.trained()], grad_w * (-shift).exp(), materialize_grads=True)
    found = phi.pullback(x.detach(), w.detach().clone(), grad_w.clone())
    for one, two in zip((found[0], *found[1]), wanted, strict=True):
        assert torch.allclose(one, two, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", INNER)
def test_both_paths_of_attention_agree(name):
    q, k, v = (t.requires_grad_() for t in tokens(2, 4, 2, 5, 6, 4))
    state = PrefixState.from_prefix(calibrated(name), normal(2, 20, 4, scale=0.5), normal(2, 20, 4))
    fused = ntk_attention(q, k, v, state)
    plain = portable_attention(q, k, v, state, Mask(), 0.5)
    assert torch.allclose(fused, plain, rtol=1e-8)
    inputs, upstream = [q, k, v, *state.parameters()], normal(*fused.shape, seed=4)
    for one, two in zip(*(torch.autograd.grad(out, inputs, upstream) for out in (fused, plain)), strict=True):
        assert torch.allclose(one, two, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("level", [-300.0, 300.0])
@pytest.mark.parametrize("name", ["anchors", "learned-elu", "learned-gelu"])
def test_no_level_overflows_in_single_precision(name, level):
    q, k, v = tokens(1, 2, 2, 4, 6, 4, dtype=torch.float32)
    phi = calibrated(name, level=level).float()
    mass = torch.zeros(2, phi.size)
    mass[:, 0] = 1.0
    state = PrefixState(phi, torch.ones(2, phi.size, 4), mass)
    out = ntk_attention(q, k, v, state)
    out.sum().backward()
    assert torch.isfinite(out).all()
    assert all(torch.isfinite(p.grad).all() for p in state.parameters())
    if level < 0:
        assert torch.allclose(out, ntk_attention(q, k, v, PrefixState.zero(Elu(4), 2)), atol=1e-6)


@pytest.mark.parametrize("name", INNER)
def test_files_keep_it(name, tmp_path):
    state = PrefixState.from_prefix(calibrated(name), normal(2, 9, 4), normal(2, 9, 4))
    state.save(tmp_path / "state.safetensors")
    again = PrefixState.load(tmp_path / "state.safetensors")
    assert again.features.same_as(state.features)
    assert torch.equal(again.Z, state.Z)
    assert state.add(again).Z.shape == state.Z.shape


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"mean": torch.zeros(2, 3)}, "expected (heads, 4)"),
        ({"scale": torch.zeros(2)}, "scale not above 0"),
        ({"level": torch.full((2,), torch.nan)}, "not finite"),
        ({"level": torch.zeros(3)}, "expected (heads, 4)"),
    ],
)
def test_impossible_units_are_refused(change, says):
    units = {"mean": torch.zeros(2, 4), "scale": torch.ones(2), "level": torch.zeros(2)} | change
    with pytest.raises(AttangentError) as error:
        Calibrated(Learned.draw(4, 5, seed=0, heads=2), **units)
    assert says in str(error.value)
