"""Run the frozen lower layers of an encoder once and train on their outputs.

If only the top layers of an encoder are adapted, the layers below give the same hidden states in every
epoch and for every method. `split_trunk` cuts a model there: the trunk turns examples into hidden states
once, and the top is a separate model that takes those hidden states as its embeddings.
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


def _pass_states(
    states: Tensor | None = None, *_: Any, inputs_embeds: Tensor | None = None, **__: Any
) -> Any:
    """Replace the embeddings of a model whose inputs are hidden states."""
    return states if inputs_embeds is None else inputs_embeds


@dataclass(frozen=True)
class Trunk:
    """The frozen model, the layer at which it is cut, and the input field for its hidden states."""

    model: nn.Module
    cut: nn.Module
    field: str

    def encode(
        self,
        rows: Sequence[Encoded],
        collate: Callable[[Sequence[Encoded]], dict[str, Tensor]],
        batch: int = 32,
    ) -> list[Encoded]:
        """Replace tokens or pixels by hidden states; rows of similar length share a batch."""
        order = sorted(range(len(rows)), key=lambda i: len(rows[i].get("attention_mask", ())))
        encoded: dict[int, Encoded] = {}
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            states = self._states(collate([rows[i] for i in chosen]))
            encoded |= {i: self._row(rows[i], state) for i, state in zip(chosen, states, strict=True)}
        return [encoded[i] for i in range(len(rows))]

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
        unchanged = {name: row[name] for name in ("attention_mask", "labels") if name in row}
        length = len(row["attention_mask"]) if "attention_mask" in row else len(state)
        return {self.field: state[:length].clone(), **unchanged}


class _Reached(Exception):
    """Raised at the cut, so that the layers above do not run."""


def split_trunk(model: Any, top: int) -> tuple[Trunk, Any]:
    """Return the trunk below the last `top` layers of an encoder, and those layers as a model."""
    layers = encoder_layers(model)
    if not 1 <= top < len(layers):
        raise AttangentError(f"top is {top}, expected 1 to {len(layers) - 1} of {len(layers)} layers")
    model.eval()
    field = "pixel_values" if model.main_input_name == "pixel_values" else "inputs_embeds"
    return Trunk(model, layers[-top], field), _top(model, top)


def _top(model: Any, top: int) -> Any:
    upper = copy.deepcopy(model)
    layers = encoder_layers(upper)
    below = len(layers) - top
    del layers[:below]
    upper.config.num_hidden_layers = top
    upper.base_model.embeddings.forward = _pass_states
    for module in layers.modules():
        if isinstance(getattr(module, "layer_idx", None), int):
            module.layer_idx -= below  # pyright: ignore[reportOperatorIssue]
    mean = getattr(model, "attangent_pooling", "first") == "mean"
    if type(upper).__name__ in _READ_THE_FIRST_TOKEN and not mean:
        layers[-1].attention.output.register_forward_pre_hook(_first_token)  # pyright: ignore
    return upper


def _first_token(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Run the layers after the last attention only for the token that the classifier reads."""
    return tuple(states[:, :1] for states in args)


def encoder_layers(model: Any) -> nn.ModuleList:
    """Return the layers of an encoder that consists of embeddings, a list of layers and a head."""
    base = getattr(model, "base_model", model)
    for owner in (getattr(base, "encoder", None), base):
        for name in ("layer", "layers"):
            layers = getattr(owner, name, None)
            if isinstance(layers, nn.ModuleList) and isinstance(getattr(base, "embeddings", None), nn.Module):
                return layers
    raise AttangentError(
        f"{type(model).__name__} cannot be cut below its top layers: no embeddings followed by a list of "
        "layers was found; use BERT, RoBERTa, ViT or DeiT, or train without top."
    )
