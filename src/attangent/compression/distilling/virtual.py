"""Virtual tokens that train well: keys, values and log masses, in units of their own size."""

import torch
from torch import Tensor, nn

from attangent._core.errors import AttangentError
from attangent.attention import PrefixState, RaggedState
from attangent.attention.features import Anchors
from attangent.attention.prefix import Ragged
from attangent.compression.problem import PromptState

_SMALLEST_MASS = 1e-8


class VirtualTokens(Ragged, nn.Module):
    """A state of virtual tokens as it trains well: keys c, values U and log k of all heads, with Z = k U.

    Trained are `steps` of each, in units of its standard deviation (log k: of 1), so that one rate fits all.
    """

    def __init__(self, state: PromptState, masses: bool = True):
        """masses: whether they are trained; those of a plain cache stay one."""
        nn.Module.__init__(self)
        if isinstance(state, PrefixState):
            if not isinstance(state.features, Anchors):
                raise AttangentError(f"a state of {state.features!r} cannot be distilled, expected anchors")
            self.sizes = (state.features.size,) * state.heads
            keys = state.features.acting_keys(state.Z.dtype).expand(state.heads, -1, -1).flatten(0, 1)
            Z, k, self.softcap = state.Z.flatten(0, 1), state.k.flatten(), state.features.softcap
        else:
            self.sizes, self.softcap = state.sizes, state.softcap
            keys, Z, k = state.keys, state.Z, state.k
        keys, Z, k = keys.detach(), Z.detach(), k.detach().clamp(min=_SMALLEST_MASS)
        values = Z / k.unsqueeze(-1)
        self.starts = keys, values, k.log()
        self.units = _spread(keys), _spread(values), 1.0
        self.steps = nn.ParameterList(torch.zeros_like(start) for start in self.starts)
        self.steps[2].requires_grad_(masses)

    def trained(self) -> tuple[Tensor, Tensor, Tensor]:
        """Keys (R, d), values (R, dv) and log masses (R) of all heads, one head after the other."""
        parts = zip(self.starts, self.units, self.steps, strict=True)
        keys, values, log_masses = (start + unit * step for start, unit, step in parts)
        return keys, values, log_masses

    def tokens(self) -> tuple[Tensor, Tensor, Tensor]:
        """Keys, Z and masses, as attention wants them."""
        keys, values, log_masses = self.trained()
        k = log_masses.exp()
        return keys, values * k.unsqueeze(-1), k

    def state(self) -> PromptState:
        """The state as it is now."""
        keys, Z, k = (tensor.detach() for tensor in self.tokens())
        if len(set(self.sizes)) > 1:
            return RaggedState(keys, Z, k, self.sizes, self.softcap)
        by_head = [tensor.unflatten(0, (self.heads, -1)) for tensor in (keys, Z, k)]
        return PrefixState(Anchors(by_head[0], self.softcap), by_head[1], by_head[2])


def _spread(x: Tensor) -> float:
    return max(x.std(unbiased=False).item(), 1e-6)
