"""Compute once what does not train: a frozen encoder's lower layers, whose outputs are then the data.

When only the top layers of an encoder are adapted, the layers below give the same hidden states in every
epoch and for every method. `split_trunk` cuts a model there: the trunk turns examples into hidden states,
once; the top is a model of its own that takes those hidden states for its embeddings.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attangent._core.errors import AttangentError
from attangent.tuning.encoding import Encoded

_READ_THE_FIRST_TOKEN = "BertForSequenceClassification", "RobertaForSequenceClassification"


def given_states(given: Tensor | None = None, *_: Any, inputs_embeds: Tensor | None = None, **__: Any) -> Any:
    """What embeddings return in a model that is given hidden states: those."""
    return given if inputs_embeds is None else inputs_embeds


@dataclass(frozen=True)
class Trunk:
    """The whole frozen model, the layer at which it is cut, and the field its hidden states go into."""

    model: nn.Module
    cut: nn.Module
    field: str

    def encode(
        self,
        rows: Sequence[Encoded],
        collate: Callable[[Sequence[Encoded]], dict[str, Tensor]],
        batch: int = 32,
    ) -> list[Encoded]:
        """Hidden states in place of tokens or pixels; labels and masks stay. Like lengths run together."""
        order = sorted(range(len(rows)), key=lambda i: len(rows[i].get("attention_mask", ())))
        found: dict[int, Encoded] = {}
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            states = self._states(collate([rows[i] for i in chosen]))
            found |= {i: self._row(rows[i], state) for i, state in zip(chosen, states, strict=True)}
        return [found[i] for i in range(len(rows))]

    def _states(self, inputs: dict[str, Tensor]) -> Tensor:
        seen: list[Tensor] = []

        def stop(_: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
            seen.append(args[0] if args else named["hidden_states"])
            raise _Reached

        handle = self.cut.register_forward_pre_hook(stop, with_kwargs=True)
        try:
            with torch.inference_mode():
                self.model(**{name: value for name, value in inputs.items() if name != "labels"})
        except _Reached:
            pass
        finally:
            handle.remove()
        return seen[0].clone()

    def _row(self, row: Encoded, state: Tensor) -> Encoded:
        kept = {name: row[name] for name in ("attention_mask", "labels") if name in row}
        length = len(row["attention_mask"]) if "attention_mask" in row else len(state)
        return {self.field: state[:length].clone(), **kept}


class _Reached(Exception):
    """The cut is reached; what follows need not run."""


def split_trunk(model: Any, top: int) -> tuple[Trunk, Any]:
    """The trunk below the last `top` layers of an encoder, and those layers as a model of their own."""
    layers = encoder_layers(model)
    if not 1 <= top < len(layers):
        raise AttangentError(f"top is {top}, expected 1 to {len(layers) - 1} of {len(layers)} layers")
    model.eval()
    field = "pixel_values" if model.main_input_name == "pixel_values" else "inputs_embeds"
    return Trunk(model, layers[-top], field), _top(model, top)


def _top(model: Any, top: int) -> Any:
    made = copy.deepcopy(model)
    layers = encoder_layers(made)
    below = len(layers) - top
    del layers[:below]
    made.config.num_hidden_layers = top
    made.base_model.embeddings.forward = given_states
    for module in layers.modules():
        if isinstance(getattr(module, "layer_idx", None), int):
            module.layer_idx -= below  # pyright: ignore[reportOperatorIssue]
    mean = getattr(model, "attangent_pooling", "first") == "mean"
    if type(made).__name__ in _READ_THE_FIRST_TOKEN and not mean:
        layers[-1].attention.output.register_forward_pre_hook(_first_token)  # pyright: ignore
    return made


def _first_token(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """What follows the last attention runs for the token the head reads, and for no other."""
    return tuple(states[:, :1] for states in args)


def encoder_layers(model: Any) -> nn.ModuleList:
    """The list of an encoder's layers, where it has embeddings, layers and a head of their own."""
    base = getattr(model, "base_model", model)
    for owner in (getattr(base, "encoder", None), base):
        for name in ("layer", "layers"):
            found = getattr(owner, name, None)
            if isinstance(found, nn.ModuleList) and isinstance(getattr(base, "embeddings", None), nn.Module):
                return found
    raise AttangentError(
        f"{type(model).__name__} cannot be cut below its top layers: no embeddings followed by a list of "
        "layers was found; BERT, RoBERTa, ViT and DeiT can. Train without a cached trunk"
    )
