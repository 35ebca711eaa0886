"""States in closed form, layer after layer: each is fitted to what the earlier, compressed ones give it.

One pass of the calibration text through the model does it all: where a layer's attention is called, its state
is fitted to the exact attention with the prompt, and the state's own output goes on to the next layer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attangent.adapters.call import AttentionCall
from attangent.attention import RaggedState, merge_prefix
from attangent.compression.capture import PromptCache, run
from attangent.compression.methods import DEFAULT, CompressionMethod, method_named
from attangent.compression.methods.scoring import Kept, best_tokens
from attangent.compression.problem import LayerProblem, PromptState
from attangent.compression.text import Calibration, PackedText


def fit_states(
    model: Any,
    cache: PromptCache,
    calibration: Calibration,
    size: int,
    method: str | CompressionMethod = DEFAULT,
    fitted: Callable[[str], Any] = lambda layer: None,
    kept: Kept | None = None,
) -> dict[str, PromptState]:
    """A state of `size` virtual tokens for each layer and KV head, fitted on the calibration text.

    `fitted` is called with the name of each layer when it is done; `kept` are the tokens that each head
    keeps, where the method has them chosen beforehand.
    """
    text, known = calibration.packed(), method_named(method) if isinstance(method, str) else method
    fitter = _Fitter(cache, text, size, known, fitted, kept or {})
    with torch.no_grad():
        run(model, text.ids, cache.length, fitter, text.places, logits_to_keep=1)
    return fitter.states


def unfitted_states(cache: PromptCache, kept: Kept, softcap: float | None = None) -> dict[str, PromptState]:
    """The tokens that each head keeps, with the keys and values that they have in the prompt."""

    def state(name: str, places: Sequence[Tensor]) -> PromptState:
        keys, values = (
            [own[place].float() for own, place in zip(heads, places, strict=True)]
            for heads in cache.layers[name]
        )
        return RaggedState.of(keys, values, [torch.ones_like(own[:, 0]) for own in keys], softcap)

    return {name: state(name, places) for name, places in kept.items()}


@dataclass
class _Fitter:
    """Answers each layer's call with the output of the state it has just fitted there."""

    cache: PromptCache
    text: PackedText
    size: int
    method: CompressionMethod
    fitted: Callable[[str], Any]
    kept: Kept
    states: dict[str, PromptState] = field(default_factory=dict)

    def __call__(self, call: AttentionCall) -> Tensor:
        prompt, kept = self.cache.layers[call.layer], self.kept.get(call.layer)
        call = call.within(self.text.seen)
        layer = LayerProblem.of(call, self.text.valid, *prompt, kept, self.cache.beside(call))
        self.states[call.layer], output = _fitted(layer, self.size, self.method)
        self.fitted(call.layer)
        return output


def compacted_states(
    model: Any, states: Mapping[str, PromptState], offset: int, calibration: Calibration, size: int
) -> dict[str, PromptState]:
    """States of virtual tokens as fewer of them, `size` for each KV head in the mean.

    The text is read twice at the position `offset` behind them: once to find which tokens are looked at, of
    all heads together, and once to fit these to what all of them give.
    """
    text, method = calibration.packed(), method_named(DEFAULT)
    watcher = _Watcher(states, text)
    with torch.no_grad():
        run(model, text.ids, offset, watcher, text.places, logits_to_keep=1)
        compactor = _Compactor(states, text, method, best_tokens(watcher.scores, size), size)
        run(model, text.ids, offset, compactor, text.places, logits_to_keep=1)
    return compactor.states


@dataclass
class _Watcher:
    """Answers with the states as they are, and notes the largest attention that is paid to each token."""

    before: Mapping[str, PromptState]
    text: PackedText
    scores: dict[str, list[Tensor]] = field(default_factory=dict)

    def __call__(self, call: AttentionCall) -> Tensor:
        call, state = call.within(self.text.seen), self.before.get(call.layer)
        if state is None:
            return call.tokens()[0].to(call.q.dtype)
        layer = LayerProblem.of_state(call, self.text.valid, state)
        self.scores[call.layer] = [head.weights.amax(dim=0) for head in layer.heads()]
        return call.with_prefix(state)


@dataclass
class _Compactor:
    """Answers each layer's call with the output of the smaller state it has just fitted there."""

    before: Mapping[str, PromptState]
    text: PackedText
    method: CompressionMethod
    kept: Kept
    size: int
    states: dict[str, PromptState] = field(default_factory=dict)

    def __call__(self, call: AttentionCall) -> Tensor:
        call, state = call.within(self.text.seen), self.before.get(call.layer)
        if state is None:
            return call.tokens()[0].to(call.q.dtype)
        layer = LayerProblem.of_state(call, self.text.valid, state, self.kept[call.layer])
        self.states[call.layer], output = _fitted(layer, self.size, self.method)
        return output


def fit_layer(
    call: AttentionCall, valid: Tensor, keys: Tensor, values: Tensor, size: int, method: str = DEFAULT
) -> tuple[PromptState, Tensor]:
    """The state of one layer for a prompt of keys and values (Hkv, m, d), and attention's output with it.

    `valid` (B, L) says which of the call's queries count.
    """
    return _fitted(LayerProblem.of(call, valid, keys, values), size, method_named(method))


def _fitted(layer: LayerProblem, size: int, method: CompressionMethod) -> tuple[PromptState, Tensor]:
    state, call = method.layer_state(layer, size), layer.call
    return state, merge_prefix(call.q, layer.output, layer.lse, state, call.scale).to(call.q.dtype)
