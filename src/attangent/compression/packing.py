"""States of virtual tokens as plain tensors and back, for files that a run keeps for itself."""

from collections.abc import Mapping

import torch
from torch import Tensor

from attangent.attention import PrefixState, RaggedState
from attangent.attention.features import Anchors
from attangent.compression.problem import PromptState

_PARTS = ("keys", "Z", "mass")


def packed(states: Mapping[str, PromptState]) -> dict[str, Tensor]:
    """The tensors of states by layer; every state must consist of virtual tokens."""
    found = {}
    for name, state in states.items():
        whole = RaggedState.from_state(state) if isinstance(state, PrefixState) else state
        found |= {f"{name}/{part}": getattr(whole, part).detach() for part in _PARTS}
        found[f"{name}/sizes"] = torch.tensor(whole.sizes)
        found[f"{name}/softcap"] = torch.tensor(float(whole.softcap or 0))
    return found


def unpacked(tensors: Mapping[str, Tensor]) -> dict[str, PromptState]:
    """The states that `packed` took apart."""
    names = dict.fromkeys(name.rpartition("/")[0] for name in tensors)
    return {
        name: _state(*(tensors[f"{name}/{part}"] for part in (*_PARTS, "sizes", "softcap"))) for name in names
    }


def _state(keys: Tensor, Z: Tensor, mass: Tensor, sizes: Tensor, softcap: Tensor) -> PromptState:
    cap, by_head = softcap.item() or None, sizes.tolist()
    if len(set(by_head)) > 1:
        return RaggedState(keys, Z, mass, by_head, cap)
    c, Z, k = (tensor.unflatten(0, (len(by_head), -1)) for tensor in (keys, Z, mass))
    return PrefixState(Anchors(c, cap), Z, k)
