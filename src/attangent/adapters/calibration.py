"""What the layers of a model do on a few batches: their units, and the keys and values of a prompt."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn

from attangent._core.errors import AttangentError
from attangent.adapters.call import AttentionCall
from attangent.adapters.layers import bare
from attangent.adapters.record import slots, states_of
from attangent.adapters.states import CalibratedState
from attangent.adapters.switch import disabled
from attangent.adapters.units import LayerUnits
from attangent.attention.prefix import by_state_head, query_gain

Batch = Mapping[str, Any]
"""The inputs of a model by name."""


Recorder = Callable[[AttentionCall], None]
"""Called with every call of a layer's attention."""


def calibrate(model: Any, batches: Batch | Iterable[Batch], name: str = "default") -> Any:
    """Measure the units of the adapter's calibrated states on batches of the model's inputs.

    For each head: the mean and the standard deviation of the queries, the standard deviation of the values
    and the mean logsumexp of the logits, over tokens that are not padding, in the model without adapters.
    Call it before training: trained weights belong to the units they were trained in.
    """
    states = {at: state for at, state in states_of(model, name).items() if isinstance(state, CalibratedState)}
    if not states:
        return model
    measures = {layer: Measure(state.heads) for layer, state in states.items()}
    run_recorded(model, batches, measures)
    for layer, state in states.items():
        if measures[layer].queries == 0:
            raise AttangentError(f"the batches never reach layer {layer}: nothing to calibrate it on")
        state.set_units(measures[layer].units())
    return model


def run_recorded(model: Any, batches: Batch | Iterable[Batch], recorders: Mapping[str, Recorder]) -> None:
    """Run the bare model on the batches and hand the attention calls of each layer to its recorder."""
    base = bare(model)
    with torch.no_grad(), disabled(model), _recording(base, recorders), _evaluating(base):
        for batch in _each(batches):
            base(**_on_device(batch, base))


@contextmanager
def _recording(base: nn.Module, recorders: Mapping[str, Recorder]) -> Iterator[None]:
    found = slots(base)
    for layer, recorder in recorders.items():
        found[layer].recorder = recorder
    try:
        yield
    finally:
        for layer in recorders:
            found[layer].recorder = None


@contextmanager
def _evaluating(base: nn.Module) -> Iterator[None]:
    training = [module for module in base.modules() if module.training]
    base.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _each(batches: Batch | Iterable[Batch]) -> Iterator[Batch]:
    if not isinstance(batches, Iterable):
        raise AttangentError(
            f"batches is {type(batches).__name__}, expected the model's inputs by name, or several of them"
        )
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
    """Sums over the calls of one layer, from which its units follow; all in float64."""

    def __init__(self, heads: int):
        self.heads = heads
        self.queries = 0
        self.keys = 0
        self.sums: dict[str, Tensor] = {}

    def __call__(self, call: AttentionCall) -> None:
        q, (valid_q, valid_k) = call.q, call.real_tokens()
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
        mean = self.sums["q"] / self.queries
        covariance = self.sums["qq"] / self.queries - mean.unsqueeze(-1) * mean.unsqueeze(-2)
        values = _spread(self.sums["v"], self.sums["vv"], self.keys)
        values = values.repeat_interleave(self.heads // len(values))
        return LayerUnits(mean, covariance, self.sums["level"] / self.queries, values)


def _spread(total: Tensor, squares: Tensor, count: int) -> Tensor:
    """The standard deviation over tokens and coordinates about each coordinate's mean, (heads)."""
    variance = (squares / count - (total / count).square()).clamp(min=0).mean(dim=-1)
    return variance.sqrt().clamp(min=1e-6)
