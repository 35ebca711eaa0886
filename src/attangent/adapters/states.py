"""States of an adapter: what is trained, how it becomes Z and k, and the units of a layer."""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attangent._core.checks import check_memory
from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.adapters.config import NTKConfig
from attangent.adapters.layers import AttentionLayer
from attangent.attention import PrefixState, RaggedState
from attangent.attention.features import (
    Anchors,
    Calibrated,
    Elu,
    FeatureMap,
    Learned,
    PositiveRandom,
    Printed,
)
from attangent.attention.features.taylor import Taylor
from attangent.attention.prefix import reflected

_FIRST_WEIGHTS = 0.3
"""Scale of the initial weights of learned features; it keeps gelu near its bend."""
_LARGEST_SHIFT = 60.0
_LEAST_SCALE = 1e-6
_LEAST_REST = 1e-3
"""Least variance of the undamped directions relative to the mean; with few examples some have variance 0."""


class LayerUnits(NamedTuple):
    """Measured units of a layer: mean (heads, d), covariance (heads, d, d), level and value_scale (heads)."""

    mean: Tensor
    covariance: Tensor
    level: Tensor
    value_scale: Tensor

    @property
    def scale(self) -> Tensor:
        """Standard deviation of the queries over tokens and coordinates, (heads)."""
        variance = self.covariance.diagonal(dim1=-2, dim2=-1).mean(dim=-1)
        return variance.clamp(min=_LEAST_SCALE**2).sqrt()


def widest(
    covariance: Float[Tensor, "heads d d"], count: int
) -> tuple[Float[Tensor, "heads {count} d"], Float[Tensor, " heads"]]:
    """Return R (heads, count, d) and scale (heads) that damp the `count` widest directions.

    (I - R'R)(q - mean)/scale varies as much in these directions as in the others, and its mean variance over
    the others is 1.
    """
    values, vectors = torch.linalg.eigh(covariance)
    narrow = values.shape[-1] - count
    rest = values[:, :narrow].mean(dim=-1, keepdim=True).clamp(min=_LEAST_SCALE**2)
    rest = torch.maximum(rest, _LEAST_REST * values.mean(dim=-1, keepdim=True))
    # I - R'R multiplies direction i by remaining_i, which turns its variance into that of the rest
    remaining = (rest / values[:, narrow:].clamp(min=1e-30)).sqrt().clamp(max=1)
    return vectors.mT[:, narrow:] * (1 - remaining).sqrt().unsqueeze(-1), rest.squeeze(-1).sqrt()


class CalibratedState(nn.Module):
    """num = e^c sigma_v phi(q~) Z and den = e^c phi(q~) k with q~ = (q - mu)/sigma, in units of the layer.

    mu, sigma, c (the mean logsumexp of the tokens) and sigma_v (the standard deviation of the values) are
    buffers per head, which `calibrate` measures. Learned features and anchors see q~ with its widest
    directions damped, because a few directions often have most of the variance. Trained are the weights of
    the map, Z (heads, r, dv) and `mass` with k = |mass|. A `mass` of one column belongs to the first feature;
    the others have mass 0.
    """

    features: Calibrated
    value_scale: Tensor

    def __init__(self, features: Calibrated, Z: Tensor, mass: Tensor, value_scale: Tensor):
        super().__init__()
        _check_parts(features, Z, mass, value_scale)
        self.features = features
        self.Z = nn.Parameter(Z.detach().clone())
        self.mass = nn.Parameter(mass.detach().clone())
        self.register_buffer("value_scale", value_scale.detach().clone())

    @property
    def heads(self) -> int:
        return self.mass.shape[0]

    @property
    def k(self) -> Tensor:
        """The trained masses, never negative."""
        return reflected(self.mass)

    def weights(self) -> tuple[Tensor, Tensor]:
        """Return Z and the masses in raw units, as `Prefix` defines them."""
        return self.Z * self.value_scale[:, None, None], self._filled(self.k)

    def set_units(self, units: LayerUnits) -> None:
        """Copy measured units into the buffers."""
        inner = self.features.inner
        scale = units.scale
        if isinstance(inner, Anchors | Learned) and inner.damping is not None:
            directions, scale = widest(units.covariance, inner.damping.shape[-2])
            inner.damping.copy_(directions)
        if isinstance(inner, Anchors):
            scale = scale / math.sqrt(inner.dim)  # anchors then score q~.a, without 1/sqrt(d)
        self.features.mean.copy_(units.mean)
        self.features.scale.copy_(scale)
        self.features.level.copy_(units.level)
        self.value_scale.copy_(units.value_scale)

    def set_tokens(
        self,
        keys: Float[Tensor, "heads size d"],
        masses: Float[Tensor, "heads size"],
        Z: Float[Tensor, "heads size value_dim"],
    ) -> None:
        """Set the state to anchors (heads, r, d) with masses and sums Z, all in raw units."""
        features = self.features
        features.inner.keys.copy_(keys * features.scale[:, None, None])  # type: ignore[union-attr]
        # q.a/sqrt(d) = q~.(sigma a)/sqrt(d) + mu.a/sqrt(d): the last term and the level go into the masses
        shift = (keys @ features.mean.unsqueeze(-1)).squeeze(-1) / math.sqrt(features.dim)
        shift = (shift - features.level[:, None]).clamp(-_LARGEST_SHIFT, _LARGEST_SHIFT)
        self._set(masses * shift.exp(), Z * (shift.exp() / self.value_scale[:, None]).unsqueeze(-1))

    def _set(self, k: Tensor, Z: Tensor) -> None:
        self.mass.copy_(k)
        self.Z.copy_(Z)

    def _filled(self, k: Tensor) -> Tensor:
        return F.pad(k, (0, self.features.size - k.shape[1])) if k.shape[1] < self.features.size else k


def _check_parts(features: Calibrated, Z: Tensor, mass: Tensor, value_scale: Tensor) -> None:
    heads = len(features.mean)
    size = features.size
    fits = Z.ndim == 3 and Z.shape[:2] == (heads, size) and value_scale.shape == (heads,)
    if not fits or mass.shape not in ((heads, 1), (heads, size)):
        raise AttangentError(
            f"Z, mass and value_scale are {tuple(Z.shape)}, {tuple(mass.shape)}, {tuple(value_scale.shape)}, "
            f"expected ({heads}, {size}, value size), ({heads}, {size}) or ({heads}, 1), ({heads},)"
        )
    tensors = Z, mass, value_scale, *features.state_dict().values()
    if not all(t.is_floating_point() and torch.isfinite(t).all() for t in tensors):
        raise AttangentError("a tensor of the state has another type than floats, or NaN or infinite entries")


class LogMassState(CalibratedState):
    """A calibrated state with k = exp(mass), so that an optimiser step multiplies k."""

    @property
    def k(self) -> Tensor:
        return self.mass.exp()

    def _set(self, k: Tensor, Z: Tensor) -> None:
        self.mass.copy_(k.clamp(min=1e-30).log())
        self.Z.copy_(Z)


class AnchorState(LogMassState):
    """A calibrated state with k = exp(mass) and Z = k U; `Z` stores U, the values of virtual tokens."""

    def weights(self) -> tuple[Tensor, Tensor]:
        k = self.k
        return self.Z * (k * self.value_scale[:, None]).unsqueeze(-1), k

    def _set(self, k: Tensor, Z: Tensor) -> None:
        super()._set(k, Z / k.clamp(min=1e-30).unsqueeze(-1))


class AuthorsState(PrefixState):
    """Raw Z and k = abs(mass) as in the code of P1's authors: abs has slope 0 at 0, so k = 0 never moves."""

    def weights(self) -> tuple[Tensor, Tensor]:
        return self.Z, self.mass.abs()


State = PrefixState | CalibratedState | RaggedState


def new_state(config: NTKConfig, layer: AttentionLayer, index: int) -> Any:
    """Return the initial state of a layer for init `zero` or `gaussian`; `index` makes the draws differ."""
    heads = layer.state_heads(config.per)
    seed = config.seed * 100_003 + index
    if config.resolved_units == "calibrated":
        return _calibrated(config, layer, heads, seed)
    kind = AuthorsState if config.resolved_units == "authors" else PrefixState
    features = _features(config, layer, heads, seed)
    if config.rank is not None:
        return kind.low_rank(features, heads, config.rank, seed, layer.value_size)
    if config.init == "gaussian":
        draw = generator(seed, "gaussian prefix")
        shape = heads, config.prefix_length
        check_memory("a prefix", 4, heads=heads, prefix_length=config.prefix_length, dim=layer.key_size)
        keys = torch.randn(*shape, layer.key_size, generator=draw)
        return kind.from_prefix(features, keys, torch.randn(*shape, layer.value_size, generator=draw))
    return kind.zero(features, heads, layer.value_size)


def _features(config: NTKConfig, layer: AttentionLayer, heads: int, seed: int) -> FeatureMap:
    dim = layer.key_size
    size = config.resolved_size
    if config.features == "elu":
        return Elu(dim)
    if config.features == "printed":
        return Printed(dim)
    assert size is not None
    if config.features == "taylor":
        return Taylor(dim, size)
    if config.features == "positive-random":
        return PositiveRandom(dim, size, seed)
    damping = _damping(config, heads, dim)
    if config.features == "anchors":
        check_memory("anchors", 4, heads=heads, size=size, dim=dim)
        drawn = torch.randn(heads, size, dim, generator=generator(seed, "anchors"))
        return Anchors(dim**-0.5 * drawn if config.resolved_units == "calibrated" else drawn, damping=damping)
    learned = Learned.draw(dim, size, seed, heads=heads, gain=_FIRST_WEIGHTS, activation="gelu")
    return Learned(learned.weight, learned.bias, "gelu", damping)


def _damping(config: NTKConfig, heads: int, dim: int) -> Tensor | None:
    """Return zeros for the directions that calibration will find; None if nothing is damped."""
    count = min(math.ceil(config.damped * dim), dim - 1)
    if config.resolved_units != "calibrated" or config.init == "text" or count == 0:
        return None
    return torch.zeros(heads, count, dim)


def _calibrated(config: NTKConfig, layer: AttentionLayer, heads: int, seed: int) -> CalibratedState:
    inner = _features(config, layer, heads, seed)
    share = config.resolved_share
    zeros = torch.zeros(heads)
    ones = torch.ones(heads)
    features = Calibrated(inner, torch.zeros(heads, layer.key_size), ones, zeros)
    Z = torch.zeros(heads, inner.size, layer.value_size)
    columns = 1 if config.features == "learned" else inner.size  # of learned features only the first has mass
    if share == 0:
        state = CalibratedState(features, Z, torch.zeros(heads, columns), ones)
    else:
        kind = LogMassState if config.features == "learned" else AnchorState
        state = kind(features, Z, torch.full((heads, columns), math.log(share / columns)), ones)
    state.set_units(LayerUnits(features.mean, torch.eye(layer.key_size).expand(heads, -1, -1), zeros, ones))
    return state
