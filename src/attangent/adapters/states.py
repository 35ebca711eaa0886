"""Parametrisations: what is trained, and how it becomes Z and k."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attangent._core.errors import AttangentError
from attangent._core.memory import check_memory
from attangent._core.random import generator
from attangent.adapters.config import NTKConfig
from attangent.adapters.layers import Layer
from attangent.adapters.units import LayerUnits, widest
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
"""Size of the first weights of learned features, which keeps gelu near its bend."""
_LARGEST_SHIFT = 60.0


class CalibratedState(nn.Module):
    """num = e^c sigma_v phi(q~) Z and den = e^c phi(q~) k with q~ = (q - mu)/sigma: the layer's own units.

    mu, sigma, c (the mean logsumexp of the tokens) and sigma_v (the standard deviation of the values) are
    buffers for each head, which `calibrate` measures. Learned features and anchors see q~ with its widest
    directions damped, as a few directions often hold most of the variance. Trained are the map's own
    weights, Z (heads, r, dv) and `mass` with k = |mass|; a `mass` of one column belongs to the first feature,
    and the others have none.
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
        """The masses that are trained, never negative."""
        return reflected(self.mass)

    def weights(self) -> tuple[Tensor, Tensor]:
        """Z and masses, as `Prefix` wants them."""
        return self.Z * self.value_scale[:, None, None], self._filled(self.k)

    def set_units(self, units: LayerUnits) -> None:
        """Take over measured units."""
        inner, scale = self.features.inner, units.scale
        if isinstance(inner, Anchors | Learned) and inner.damping is not None:
            directions, scale = widest(units.covariance, inner.damping.shape[-2])
            inner.damping.copy_(directions)
        if isinstance(inner, Anchors):
            scale = scale / math.sqrt(inner.dim)  # the anchors' scores are then q~.a, without 1/sqrt d
        own = self.features.mean, self.features.scale, self.features.level, self.value_scale
        for buffer, measured in zip(own, (units.mean, scale, units.level, units.value_scale), strict=True):
            buffer.copy_(measured)

    def set_tokens(self, keys: Tensor, masses: Tensor, Z: Tensor) -> None:
        """Become the prefix of these anchors (heads, r, d) with these masses and sums Z in raw units."""
        map_ = self.features
        self.features.inner.keys.copy_(keys * map_.scale[:, None, None])  # type: ignore[union-attr]
        shift = (keys @ map_.mean.unsqueeze(-1)).squeeze(-1) / math.sqrt(map_.dim) - map_.level[:, None]
        shift = shift.clamp(-_LARGEST_SHIFT, _LARGEST_SHIFT)
        self._take(masses * shift.exp(), Z * (shift.exp() / self.value_scale[:, None]).unsqueeze(-1))

    def _take(self, k: Tensor, Z: Tensor) -> None:
        self.mass.copy_(k)
        self.Z.copy_(Z)

    def _filled(self, k: Tensor) -> Tensor:
        return F.pad(k, (0, self.features.size - k.shape[1])) if k.shape[1] < self.features.size else k


def _check_parts(features: Calibrated, Z: Tensor, mass: Tensor, value_scale: Tensor) -> None:
    heads, size = len(features.mean), features.size
    fits = Z.ndim == 3 and Z.shape[:2] == (heads, size) and value_scale.shape == (heads,)
    if not fits or mass.shape not in ((heads, 1), (heads, size)):
        raise AttangentError(
            f"Z, mass and value_scale are {tuple(Z.shape)}, {tuple(mass.shape)}, {tuple(value_scale.shape)}, "
            f"expected ({heads}, {size}, value size), ({heads}, {size}) or ({heads}, 1), ({heads},)"
        )
    tensors = Z, mass, value_scale, *features.state_dict().values()
    if not all(t.is_floating_point() and torch.isfinite(t).all() for t in tensors):
        raise AttangentError("a tensor of the state is not of floating point or has NaN or infinite entries")


class LogMassState(CalibratedState):
    """A calibrated state with k = exp(mass): a step of the optimiser changes k by a factor."""

    @property
    def k(self) -> Tensor:
        return self.mass.exp()

    def _take(self, k: Tensor, Z: Tensor) -> None:
        self.mass.copy_(k.clamp(min=1e-30).log())
        self.Z.copy_(Z)


class AnchorState(LogMassState):
    """A calibrated state with k = exp(mass) and Z = k U, U in the place of Z: values of virtual tokens."""

    def weights(self) -> tuple[Tensor, Tensor]:
        k = self.k
        return self.Z * (k * self.value_scale[:, None]).unsqueeze(-1), k

    def _take(self, k: Tensor, Z: Tensor) -> None:
        super()._take(k, Z / k.clamp(min=1e-30).unsqueeze(-1))


class AuthorsState(PrefixState):
    """Raw Z and k = abs(mass) with the slope 0 at 0, as in the code of P1's authors: a k of 0 never moves."""

    def weights(self) -> tuple[Tensor, Tensor]:
        return self.Z, self.mass.abs()


State = PrefixState | CalibratedState | RaggedState


def new_state(config: NTKConfig, layer: Layer, place: int) -> Any:
    """The first state of a layer for `zero` and `gaussian` initialisation; `place` makes draws differ."""
    heads, seed = layer.state_heads(config.per), config.seed * 100_003 + place
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


def _features(config: NTKConfig, layer: Layer, heads: int, seed: int) -> FeatureMap:
    dim, size = layer.key_size, config.resolved_size
    if config.features == "elu":
        return Elu(dim)
    if config.features == "printed":
        return Printed(dim)
    assert size is not None
    if config.features == "taylor":
        return Taylor(dim, size)
    if config.features == "positive-random":
        return PositiveRandom(dim, size, seed)
    calibrated, damping = config.resolved_units == "calibrated", _damping(config, heads, dim)
    if config.features == "anchors":
        check_memory("anchors", 4, heads=heads, size=size, dim=dim)
        drawn = torch.randn(heads, size, dim, generator=generator(seed, "anchors"))
        return Anchors(dim**-0.5 * drawn if calibrated else drawn, damping=damping)
    learned = Learned.draw(dim, size, seed, heads=heads, gain=_FIRST_WEIGHTS, activation="gelu")
    return Learned(learned.weight, learned.bias, "gelu", damping)


def _damping(config: NTKConfig, heads: int, dim: int) -> Tensor | None:
    """Room for the directions that calibration finds; anchors that start as a prompt stay that prompt."""
    count = min(math.ceil(config.damped * dim), dim - 1)
    if config.resolved_units != "calibrated" or config.init == "text" or count == 0:
        return None
    return torch.zeros(heads, count, dim)


def _calibrated(config: NTKConfig, layer: Layer, heads: int, seed: int) -> CalibratedState:
    inner, share = _features(config, layer, heads, seed), config.resolved_share
    zeros, ones = torch.zeros(heads), torch.ones(heads)
    features = Calibrated(inner, torch.zeros(heads, layer.key_size), ones, zeros)
    Z, columns = torch.zeros(heads, inner.size, layer.value_size), inner.size
    if config.features == "learned":
        columns = 1
    if share == 0:
        state = CalibratedState(features, Z, torch.zeros(heads, columns), ones)
    else:
        kind = LogMassState if config.features == "learned" else AnchorState
        state = kind(features, Z, torch.full((heads, columns), math.log(share / columns)), ones)
    state.set_units(LayerUnits(features.mean, torch.eye(layer.key_size).expand(heads, -1, -1), zeros, ones))
    return state
