"""What the tests of attention share: one of each feature map, states, masks, and the formula written out."""

import math

import torch

from attangent._core.random import generator
from attangent.attention import PrefixState
from attangent.attention.backends.torch.portable import portable_attention
from attangent.attention.features import Anchors, Elu, Learned, PositiveRandom, Printed, Taylor
from attangent.attention.masks import resolve_mask


def normal(*shape, seed=0, dtype=torch.float64, scale=1.0):
    drawn = torch.randn(shape, generator=generator(seed, f"test {shape}"), dtype=torch.float64)
    return (scale * drawn).to(dtype)


def make_map(name, dim, heads=None):
    """The map of this name; maps with weights get separate ones for each of `heads` where given."""
    shape = (dim,) if heads is None else (heads, dim)
    rows = (*shape[:-1], 5, dim)
    return {
        "elu": lambda: Elu(dim),
        "printed": lambda: Printed(dim),
        "taylor-1": lambda: Taylor(dim, order=1),
        "taylor-2": lambda: Taylor(dim, order=2),
        "taylor-3": lambda: Taylor(dim, order=3),
        "positive-random": lambda: PositiveRandom(dim, size=7, seed=3),
        "anchors": lambda: Anchors(normal(*rows, seed=4)),
        "anchors-softcap": lambda: Anchors(normal(*rows, seed=4), softcap=1.5),
        "anchors-damped": lambda: Anchors(
            normal(*rows, seed=4), damping=normal(*shape[:-1], 2, dim, seed=8, scale=0.3)
        ),
        "learned-elu": lambda: Learned.draw(dim, 6, seed=5, heads=heads, dtype=torch.float64),
        "learned-gelu": lambda: Learned.draw(
            dim, 6, seed=5, heads=heads, activation="gelu", dtype=torch.float64
        ),
        "learned-damped": lambda: Learned(
            normal(*rows, seed=6),
            normal(*rows[:-1], seed=7),
            "gelu",
            normal(*shape[:-1], 2, dim, seed=8, scale=0.3),
        ),
    }[name]()


MAPS = [
    "elu",
    "printed",
    "taylor-1",
    "taylor-2",
    "taylor-3",
    "positive-random",
    "anchors",
    "anchors-softcap",
    "anchors-damped",
    "learned-elu",
    "learned-gelu",
    "learned-damped",
]
POSITIVE = [
    "elu",
    "printed",
    "positive-random",
    "anchors",
    "anchors-softcap",
    "anchors-damped",
    "learned-elu",
]


def make_state(name, dim, heads, dtype=torch.float64, seed=0, value_dim=None):
    """A state of 20 tokens with keys and values within +-1, so that outputs are hardly larger."""
    features = make_map(name, dim, heads)
    keys = normal(heads, 20, dim, seed=seed + 1, scale=0.5).clamp(-1, 1)
    values = normal(heads, 20, value_dim or dim, seed=seed + 2).clamp(-1, 1)
    return PrefixState.from_prefix(features, keys, values).to(dtype)


def tokens(batch, heads, kv_heads, rows, columns, dim, seed=0, dtype=torch.float64, value_dim=None):
    """q, k, v with values within +-1."""
    q = normal(batch, heads, rows, dim, seed=seed, dtype=dtype)
    k = normal(batch, kv_heads, columns, dim, seed=seed + 1, dtype=dtype)
    v = normal(batch, kv_heads, columns, value_dim or dim, seed=seed + 2, dtype=dtype).clamp(-1, 1)
    return q, k, v


def make_mask(kind, batch, heads, rows, columns, dtype=torch.float64, seed=0):
    """A mask of this kind as the argument of an attention; the second query of a boolean one sees nothing."""
    shapes = {"keys": (batch, 1, 1, columns), "rows": (rows, columns), "full": (batch, heads, rows, columns)}
    what, _, shape = kind.partition("-")
    if what == "none":
        return None
    drawn = normal(*shapes[shape], seed=seed + 9)
    if what == "added":
        return drawn.to(dtype)
    allowed = drawn > -0.3
    if shape != "keys" and rows > 1:
        allowed[..., 1, :] = False
    return allowed


MASKS = ["none", "bool-keys", "bool-rows", "bool-full", "added-keys", "added-rows", "added-full"]


def written_out(q, k, v, state, *, mask=None, causal=False, scale=None, softcap=None):
    """(e^A v + phi(q) Z) / (e^A 1 + phi(q) k) in float64 with plain exponentials, one query at a time."""
    q, k, v = q.double(), k.double(), v.double()
    Z, mass = state.Z.detach().double(), state.k.detach().double()
    features = state.features.double()
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for t in (k, v))
    group = q.shape[1] // len(Z)
    x = (q * scale * math.sqrt(q.shape[-1])).reshape(q.shape[0], len(Z), -1, q.shape[-1])
    phi = features(x).detach().reshape(*q.shape[:3], -1)
    rows, columns = q.shape[2], k.shape[2]
    out = torch.zeros(*q.shape[:3], v.shape[-1], dtype=torch.float64)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            for i in range(rows):
                logits = scale * k[b, h] @ q[b, h, i]
                if softcap is not None:
                    logits = softcap * torch.tanh(logits / softcap)
                weights = logits.exp()
                if mask is not None:
                    row = mask.expand(q.shape[0], q.shape[1], rows, columns)[b, h, i]
                    weights = weights * (row.double() if row.dtype == torch.bool else row.double().exp())
                if causal:
                    weights = weights * (torch.arange(columns) <= i + columns - rows)
                top = weights @ v[b, h] + phi[b, h, i] @ Z[h // group]
                whole = weights.sum() + phi[b, h, i] @ mass[h // group]
                out[b, h, i] = top / whole if whole != 0 else 0
    return out


def portable(q, k, v, state, *, mask=None, causal=False, scale=None):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return portable_attention(q, k, v, state, resolve_mask(mask, causal, q, k), scale)


def gradients(out, inputs, seed=0):
    return torch.autograd.grad(out, inputs, normal(*out.shape, seed=seed + 99, dtype=out.dtype))
