"""Record the attention calls of a model on a few batches: measure units, start states from a prompt."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attangent._core.errors import AttangentError
from attangent._core.modules import eval_mode
from attangent.adapters.call import AttentionCall
from attangent.adapters.layers import AttentionLayer, bare
from attangent.adapters.record import disabled, slots, states_of
from attangent.adapters.states import CalibratedState, LayerUnits
from attangent.attention import PrefixState
from attangent.attention.features import Anchors
from attangent.attention.prefix import by_state_head, query_gain

Batch = Mapping[str, Tensor]
"""The inputs of a model by name."""
Recorder = Callable[[AttentionCall], None]
"""A function that is called with every attention call of a layer."""


def calibrate(model: Any, batches: Batch | Iterable[Batch], name: str = "default") -> Any:
    """Measure the units of an adapter's calibrated states on batches of the model's inputs.

    Measured per head, without adapters and padding: mean and covariance of the queries, standard deviation of
    the values, and mean logsumexp of the logits. Call it before training, because weights depend on units.

    Args:
        model: A model with adapters; it is changed in place.
        batches: The inputs of the model by name, or several of these; about 100 examples in total.
        name: The adapter to calibrate.

    Returns:
        The model.

    Raises:
        AttangentError: If there is no batch, or if the batches never reach a layer of the adapter.

    Example:
        >>> from attangent import NTKConfig, attach
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=20))
        >>> batch = {"input_ids": torch.randint(20, (4, 6))}
        >>> model = calibrate(attach(model, NTKConfig(), calibration=batch), [batch, batch])
    """
    states = {at: state for at, state in states_of(model, name).items() if isinstance(state, CalibratedState)}
    if not states:
        return model
    measures = {layer: Measure(state.heads) for layer, state in states.items()}
    run_recorded(model, batches, measures)
    for layer, state in states.items():
        if measures[layer].queries == 0:
            raise AttangentError(f"the batches never reach layer {layer}: there is no data to calibrate it")
        state.set_units(measures[layer].units())
    return model


def run_recorded(model: Any, batches: Batch | Iterable[Batch], recorders: Mapping[str, Recorder]) -> None:
    """Run the model without adapters and pass the attention calls of each layer to its recorder."""
    base = bare(model)
    with torch.no_grad(), disabled(model), _recording(base, recorders), eval_mode(base):
        for batch in _each(batches):
            base(**_on_device(batch, base))


@contextmanager
def _recording(base: nn.Module, recorders: Mapping[str, Recorder]) -> Iterator[None]:
    by_layer = slots(base)
    for layer, recorder in recorders.items():
        by_layer[layer].recorder = recorder
    try:
        yield
    finally:
        for layer in recorders:
            by_layer[layer].recorder = None


def _each(batches: Batch | Iterable[Batch]) -> Iterator[Batch]:
    count = 0
    for batch in cast("Iterable[Batch]", [batches] if isinstance(batches, Mapping) else batches):
        if not isinstance(batch, Mapping):
            raise AttangentError(f"a batch is {type(batch).__name__}, expected the model's inputs by name")
        count += 1
        yield batch
    if count == 0:
        raise AttangentError("there is no batch, expected at least one")


def _on_device(batch: Batch, base: nn.Module) -> dict[str, Any]:
    device = next(base.parameters()).device
    return {name: value.to(device) if isinstance(value, Tensor) else value for name, value in batch.items()}


class Measure:
    """Sums over the calls of one layer, in float64, from which its units follow."""

    def __init__(self, heads: int):
        self.heads = heads
        self.queries = 0
        self.keys = 0
        self.sums: dict[str, Tensor] = {}

    def __call__(self, call: AttentionCall) -> None:
        q = call.q
        valid_q, valid_k = call.real_tokens()
        x = by_state_head(q.double() * query_gain(call.scale, q.shape[-1]), self.heads)
        groups = q.shape[1] // self.heads
        real = valid_q[:, None, :].expand(-1, q.shape[1], -1).reshape(*x.shape[:3], 1)
        level = by_state_head(call.logsumexp().double().unsqueeze(-1), self.heads)
        self._add("q", torch.where(real, x, 0).sum(dim=(0, 2)))
        x = torch.where(real, x, 0)
        self._add("qq", (x.mT @ x).sum(dim=0))
        self._add("level", torch.where(real, level, 0).sum(dim=(0, 2, 3)))
        self.queries += int(valid_q.sum()) * groups
        v = torch.where(valid_k[:, None, :, None], call.v.double(), 0)
        self._add("v", v.sum(dim=(0, 2)))
        self._add("vv", v.square().sum(dim=(0, 2)))
        self.keys += int(valid_k.sum())

    def _add(self, name: str, term: Tensor) -> None:
        self.sums[name] = self.sums[name] + term if name in self.sums else term

    def units(self) -> LayerUnits:
        """Return mean and covariance of the queries, mean logsumexp and scale of the values per head."""
        mean = self.sums["q"] / self.queries
        covariance = self.sums["qq"] / self.queries - mean.unsqueeze(-1) * mean.unsqueeze(-2)
        values = _spread(self.sums["v"], self.sums["vv"], self.keys)
        values = values.repeat_interleave(self.heads // len(values))
        return LayerUnits(mean, covariance, self.sums["level"] / self.queries, values)


def _spread(
    total: Float[Tensor, "heads d"], squares: Float[Tensor, "heads d"], count: int
) -> Float[Tensor, " heads"]:
    """Return the standard deviation over tokens and coordinates about each coordinate's mean, (heads)."""
    variance = (squares / count - (total / count).square()).clamp(min=0).mean(dim=-1)
    return variance.sqrt().clamp(min=1e-6)


class KeysAndValues:
    """Collects the keys and values (kv heads, m, size) of a layer's calls without padding."""

    def __init__(self) -> None:
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def __call__(self, call: AttentionCall) -> None:
        _, valid = call.real_tokens()
        for k, v, real in zip(call.k, call.v, valid, strict=True):
            self.keys.append(k[:, real].float())
            self.values.append(v[:, real].float())

    def for_heads(
        self, heads: int
    ) -> tuple[Float[Tensor, "{heads} m d"], Float[Tensor, "{heads} m value_dim"]]:
        """Return keys and values repeated from kv heads to `heads`."""
        keys = torch.cat(self.keys, dim=1)
        values = torch.cat(self.values, dim=1)
        groups = max(1, heads // len(keys))
        return keys.repeat_interleave(groups, dim=0), values.repeat_interleave(groups, dim=0)


def start_from_prompt(model: Any, layers: Sequence[AttentionLayer], prompt: Batch, name: str) -> None:
    """Set the adapter's states to the prompt's keys and values (P1 Eq. 7), in place."""
    recorded = {layer.name: KeysAndValues() for layer in layers}
    run_recorded(model, prompt, recorded)
    for layer, state in states_of(model, name).items():
        if not recorded[layer].keys:
            raise AttangentError(f"the prompt never reaches layer {layer}")
        keys, values = recorded[layer].for_heads(state.heads)
        with torch.no_grad():
            _set_prefix(state, keys, values)


def _set_prefix(
    state: Any, keys: Float[Tensor, "heads m d"], values: Float[Tensor, "heads m value_dim"]
) -> None:
    calibrated = isinstance(state, CalibratedState)
    features = state.features.inner if calibrated else state.features
    if isinstance(features, Anchors):
        anchors = _evenly_spaced(keys, features.size)
        summed = PrefixState.from_prefix(Anchors(anchors, features.softcap), keys, values)
        if calibrated:
            state.set_tokens(anchors, summed.k, summed.Z)
            return
        features.keys.copy_(anchors)
    else:
        summed = PrefixState.from_prefix(features, keys, values)
    state.Z_full.copy_(summed.Z)
    state.mass.copy_(summed.k)


def _evenly_spaced(keys: Float[Tensor, "heads m dim"], size: int) -> Float[Tensor, "heads {size} dim"]:
    """Return `size` of the keys, evenly spaced over the prompt."""
    length = keys.shape[1]
    if length < size:
        raise AttangentError(
            f"the prompt has {length} tokens, expected at least as many as anchors ({size}): "
            "pass a longer prompt or a smaller size"
        )
    indices = torch.linspace(0, length - 1, size, dtype=torch.float64).round().long()
    return keys[:, indices]
