"""States from a real prompt: its keys and values in every layer, as the model itself computes them."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.adapters.calibration import Batch, run_recorded
from attangent.adapters.call import AttentionCall
from attangent.adapters.layers import Layer
from attangent.adapters.record import states_of
from attangent.adapters.states import CalibratedState
from attangent.attention import PrefixState
from attangent.attention.features import Anchors


class KeysAndValues:
    """Keeps the keys and values (kv heads, m, size) of a layer's calls, padding left out."""

    def __init__(self) -> None:
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def __call__(self, call: AttentionCall) -> None:
        _, valid = call.real_tokens()
        for k, v, real in zip(call.k, call.v, valid, strict=True):
            self.keys.append(k[:, real].float())
            self.values.append(v[:, real].float())

    def for_heads(self, heads: int) -> tuple[Tensor, Tensor]:
        keys, values = torch.cat(self.keys, dim=1), torch.cat(self.values, dim=1)
        groups = max(1, heads // len(keys))
        return keys.repeat_interleave(groups, dim=0), values.repeat_interleave(groups, dim=0)


def start_from_prompt(model: Any, layers: Sequence[Layer], prompt: Batch, name: str) -> None:
    """Set the adapter's states to the prompt's keys and values (P1 Eq. 7), in place."""
    seen = {layer.name: KeysAndValues() for layer in layers}
    run_recorded(model, prompt, seen)
    for layer, state in states_of(model, name).items():
        if not seen[layer].keys:
            raise AttangentError(f"the prompt never reaches layer {layer}")
        keys, values = seen[layer].for_heads(state.heads)
        with torch.no_grad():
            _take_over(state, keys, values)


def _take_over(state: Any, keys: Tensor, values: Tensor) -> None:
    calibrated = isinstance(state, CalibratedState)
    inner = state.features.inner if calibrated else state.features
    if isinstance(inner, Anchors):
        anchors = _spread_out(keys, inner.size)
        summed = PrefixState.from_prefix(Anchors(anchors, inner.softcap), keys, values)
        if calibrated:
            state.set_tokens(anchors, summed.k, summed.Z)
            return
        inner.keys.copy_(anchors)
    else:
        summed = PrefixState.from_prefix(inner, keys, values)
    state.Z_full.copy_(summed.Z)
    state.mass.copy_(summed.k)


def _spread_out(keys: Tensor, size: int) -> Tensor:
    """`size` of the keys, evenly spaced over the prompt."""
    length = keys.shape[1]
    if length < size:
        raise AttangentError(
            f"the prompt has {length} tokens, expected at least as many as there are anchors ({size}): "
            "give a longer prompt or a smaller size"
        )
    places = torch.linspace(0, length - 1, size, dtype=torch.float64).round().long()
    return keys[:, places]
