"""The form of a map that compiled code knows is the map, and so are its gradients."""

import pytest
import torch
import torch.nn.functional as F

from attangent.attention.features import Calibrated
from tests.attention.cases import make_map, normal

ACTS = {"learned-elu": lambda y: F.elu(y) + 1, "learned-gelu": F.gelu, "exponential": torch.exp}
MAPS = ["anchors", "anchors-damped", "learned-elu", "learned-gelu", "learned-damped"]


def applied(form, x):
    y = x @ form.weight.mT
    y = y if form.bias is None else y + form.bias.unsqueeze(-2)
    phi = ACTS[form.kind](y)
    if form.kind != "exponential":
        phi = torch.cat([torch.ones_like(phi[..., :1]), phi], dim=-1)
    return phi if form.level is None else phi * form.level.exp()[:, None, None]


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("heads", [None, 3])
@pytest.mark.parametrize("calibrated", [False, True])
def test_the_form_and_its_gradients_are_those_of_the_map(name, heads, calibrated):
    features = make_map(name, 6, heads).float()
    if calibrated:
        units = normal(3, 6, seed=1), normal(3, seed=2).exp(), normal(3, seed=3)
        features = Calibrated(features, *units).float()
    x = normal(3, 4, 6, seed=4).float()
    expected, form = features(x), features.affine()
    torch.testing.assert_close(applied(form, x), expected, rtol=1e-4, atol=1e-4)
    upstream = normal(*expected.shape, seed=5).float()
    wanted = torch.autograd.grad(expected, features.trained(), upstream)
    weight = form.weight.detach().expand(3, -1, -1).clone().requires_grad_()
    bias = torch.zeros(3, weight.shape[1]) if form.bias is None else form.bias.detach().expand(3, -1).clone()
    leaf = form._replace(weight=weight, bias=bias.requires_grad_())
    slopes = torch.autograd.grad(applied(leaf, x), (weight, bias), upstream)
    for have, want in zip(features.affine_gradients(*slopes), wanted, strict=True):
        torch.testing.assert_close(have, want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["printed", "taylor-2", "positive-random", "anchors-softcap"])
def test_other_maps_have_none(name):
    assert make_map(name, 6).affine() is None


def test_elu_has_no_weights():
    assert make_map("elu", 6).affine() == ("elu", None, None, None)
