"""A compressed prompt: attach it to a model, save it, load it, compose it, or hand it to other engines."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from os import PathLike
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from attangent._core.display import brief, facts_html
from attangent._core.errors import AttangentError
from attangent._core.files import read_json, real_folder, write_json, write_whole, writing
from attangent.adapters.attaching import attach
from attangent.adapters.config import NTKConfig
from attangent.adapters.files.format import CARD, CONFIG, PEFT_TYPE
from attangent.adapters.files.save import load_adapter, may_write_card, write_adapter
from attangent.adapters.layers import attention_layers
from attangent.adapters.record import find_record
from attangent.attention import PrefixState
from attangent.attention.features import Anchors, Elu
from attangent.compression.prompt import Reader, fingerprint
from attangent.compression.prompt_cache import PromptState, joined_states

NOTES = "compressed_prompt.json"
_LARGEST_NOTES = 1 << 20
_CLOSE = 1e-3
_CARD = Path(__file__).with_name("card.md")


@dataclass(frozen=True)
class Rotation:
    """Rotary positions.

    Attributes:
        frequencies: Angles (d / 2) by which a key turns per position.
    """

    frequencies: Float[Tensor, " half"]

    def moved(self, keys: Float[Tensor, "*batch d"], by: int) -> Float[Tensor, "*batch d"]:
        """Return keys as they would be `by` positions later."""
        angle = (by * self.frequencies.double()).repeat(2)
        first, second = keys.double().chunk(2, dim=-1)
        turned = torch.cat([-second, first], dim=-1)
        return (keys.double() * angle.cos() + turned * angle.sin()).to(keys.dtype)

    @classmethod
    def of(cls, model: Any) -> "Rotation":
        """Return the rotation of a model whose rotary positions are the same in all layers.

        Raises:
            AttangentError: If the model has other positions.
        """
        buffers = [buffer for name, buffer in model.named_buffers() if name.endswith("rotary_emb.inv_freq")]
        sizes = {layer.key_size for layer in attention_layers(model)}
        reason = "it has no rotary positions, or different ones in different layers"
        if len(buffers) == 1 and sizes == {2 * len(buffers[0])}:
            rotation = cls(buffers[0].detach().cpu())
            if rotation._fits(model):
                return rotation
            reason = "its positions are not rotations of a key's two halves"
        raise AttangentError(
            f"the keys of {type(model).__name__} cannot be moved to other positions: {reason}; use attach or "
            "save, which keep the positions of the prompt"
        )

    def _fits(self, model: Any) -> bool:
        """Return whether a token's key at position 7 is its key at position 0, moved by 7."""
        # Scaled or partial rotations have the same buffer; only the model itself tells how it uses it.
        keys = []
        for position in (0, 7):
            with torch.no_grad():
                out = model(
                    torch.ones(1, 1, dtype=torch.long, device=model.device),
                    position_ids=torch.tensor([[position]], device=model.device),
                    use_cache=True,
                )
            keys.append(out.past_key_values.layers[0].keys[0].cpu())
        return torch.allclose(self.moved(keys[0], 7), keys[1], atol=_CLOSE, rtol=_CLOSE)


@dataclass(frozen=True, repr=False)
class CompressedPrompt:
    """A state per layer that replaces a prompt.

    Attributes:
        states: States by layer name.
        position_offset: Length of the prompt, by which the positions of all tokens are moved.
        size: Average number of virtual tokens per KV head.
        method: Name of the compression method.
        roles: Roles of the prompt's messages, empty for plain text.
        tokenizer: Digest of the tokenizer's vocabulary.
        exact: Whether every token of the prompt was kept.
        distilled: Steps of training after the closed form.
        rotation: The model's rotary positions, if it has them.

    Example:
        >>> prompt = CompressedPrompt({}, 900, 64, "recall", ("system",), "0" * 16)
        >>> prompt
        CompressedPrompt(tokens='900 -> 64', method='recall', layers=0)
    """

    states: dict[str, PromptState]
    position_offset: int
    size: int
    method: str
    roles: tuple[str, ...]
    tokenizer: str
    exact: bool = False
    distilled: int = 0
    rotation: Rotation | None = None

    def __repr__(self) -> str:
        tokens = f"{self.position_offset} -> {self.size}"
        return brief(self, tokens=tokens, method=self.method, layers=len(self.states))

    def _repr_html_(self) -> str:
        facts = {
            "tokens of the prompt": self.position_offset,
            "average tokens per head": self.size,
            "method": self.method,
            "layers": len(self.states),
            "bytes": f"{self.number_of_bytes:,}",
        }
        return facts_html("Compressed prompt", facts, ["attach(model) uses it, save(model, folder) keeps it"])

    @property
    def config(self) -> NTKConfig:
        """Return the adapter configuration under which the states are attached."""
        options: dict[str, Any] = {"units": "raw", "per": "kv", "position_offset": self.position_offset}
        if any(isinstance(state.features, Elu) for state in self.states.values()):
            return NTKConfig(features="elu", **options)  # folders of earlier versions
        return NTKConfig(features="anchors", size=self.size, **options)

    @property
    def reader(self) -> Reader:
        """Return the reader of text after the prompt."""
        return Reader(self.roles)

    @property
    def number_of_bytes(self) -> int:
        """Return the memory that the states take."""
        tensors = [tensor for state in self.states.values() for tensor in state.state_dict().values()]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def attach(self, model: Any, name: str = "default") -> Any:
        """Put the prompt before everything that a model reads; `attangent.detach` removes it.

        Args:
            model: The bare model for which the prompt was compressed.
            name: Name of the adapter.

        Returns:
            The model.
        """
        return attach(model, self.config, name, states=self.states)

    def cache(self, batch: int = 1) -> Any:
        """Return a new transformers cache for `generate(ids, past_key_values=...)`; needs method `plain`.

        transformers expects the ids of the complete input and skips as many as the cache holds: pass those
        of `behind`.

        Args:
            batch: Number of sequences.

        Returns:
            A DynamicCache.
        """
        return filled_cache(self._plain_tokens(), batch)

    def behind(self, ids: Int[Tensor, "batch length"]) -> Int[Tensor, "batch longer"]:
        """Return ids with one placeholder per token of the cache before them.

        Args:
            ids: Tokens (B, L) after the prompt.

        Returns:
            Tokens (B, size + L).
        """
        return F.pad(ids, (self.size, 0))

    def export_peft(self, model: Any, folder: str | PathLike[str]) -> Path:
        """Write the prompt as a CARTRIDGE adapter that plain peft loads; needs method `plain`.

        Args:
            model: The model for which the prompt was compressed.
            folder: Folder to write to.

        Returns:
            The folder.

        Raises:
            AttangentError: If the heads differ in size or tokens have masses.
        """
        return _write_peft(self._plain_tokens(), model, real_folder(Path(folder)))

    def save(self, model: Any, folder: str | PathLike[str]) -> Path:
        """Write the adapter of a bare model to a folder; `attangent.load_adapter` reads it.

        Args:
            model: The model for which the prompt was compressed.
            folder: Folder to write to.

        Returns:
            The folder.

        Raises:
            AttangentError: If the model has adapters attached.
        """
        if find_record(model) is not None:
            raise AttangentError("the model has adapters attached; call attangent.detach first")
        place = write_adapter(folder, model, self.config, self.states)
        notes = {
            "size": self.size,
            "prompt_tokens": self.position_offset,
            "method": self.method,
            "roles": list(self.roles),
            "tokenizer": self.tokenizer,
            "exact": self.exact,
            "distilled": self.distilled,
        }
        write_json(place / NOTES, notes)
        if may_write_card(place / CARD):
            write_whole(place / CARD, self._card((place / CARD).read_text(encoding="utf-8")))
        return place

    def _card(self, card: str) -> str:
        """Return the adapter's model card with a section on the prompt that it replaces."""
        return card.rstrip() + _CARD.read_text(encoding="utf-8").format(
            tokens=f"{self.position_offset:,}",
            size=f"{self.size:,}",
            bytes=f"{self.number_of_bytes:,}",
            method=self.method,
            steps=self.distilled,
            template=f"the chat template, after {', '.join(self.roles)}" if self.roles else "no template",
        )

    def add(self, other: "CompressedPrompt") -> "CompressedPrompt":
        """Combine two prompts, each of which begins at position 0.

        Args:
            other: A prompt compressed for the same model.

        Returns:
            A prompt with the virtual tokens of both.

        Raises:
            AttangentError: If the prompts belong to different models.
        """
        if set(self.states) != set(other.states) or self.tokenizer != other.tokenizer:
            raise AttangentError("only compressed prompts of the same model can be combined")
        return CompressedPrompt(
            joined_states(self.states, other.states),
            max(self.position_offset, other.position_offset),
            self.size + other.size,
            self.method if self.method == other.method else "recall",
            self.roles if self.roles == other.roles else (),
            self.tokenizer,
            distilled=max(self.distilled, other.distilled),
        )

    def _plain_tokens(self) -> list[tuple[Tensor, Tensor]]:
        """Return keys and values (Hkv, size, d) of each layer at positions 0 to size - 1."""
        states = list(self.states.values())
        equal = all(
            isinstance(state, PrefixState) and isinstance(state.features, Anchors) for state in states
        )
        sizes = {state.features.size for state in states}
        if not equal or len(sizes) > 1 or any((state.k != 1).any() for state in states):
            raise AttangentError(
                f"a prompt compressed by {self.method!r} has sizes or masses that a plain KV cache cannot "
                "hold; compress it with method='plain'"
            )
        if self.rotation is None:
            raise AttangentError(
                "the positions of this prompt's model cannot be moved, so other engines cannot hold it; use "
                "attach or save"
            )
        # Other engines count positions from the tokens they hold, not from the prompt's length. Rotating
        # the keys back by the difference leaves every distance unchanged.
        by = sizes.pop() - self.position_offset
        return [
            (self.rotation.moved(state.features.keys.detach(), by), state.Z.detach())  # type: ignore[union-attr]
            for state in states
        ]


def filled_cache(layers: Sequence[tuple[Tensor, Tensor]], batch: int) -> Any:
    """Return a DynamicCache with keys and values (Hkv, m, d) of every layer, copied per sequence."""
    from transformers import DynamicCache

    cache = DynamicCache()
    for index, pair in enumerate(layers):
        keys, values = (tensor.expand(batch, -1, -1, -1).clone() for tensor in pair)
        cache.update(keys, values, index)
    return cache


def _write_peft(layers: Sequence[tuple[Tensor, Tensor]], model: Any, folder: Path) -> Path:
    from peft import CartridgeConfig
    from safetensors.torch import save_file

    heads, size, dim = layers[0][0].shape
    if {tensor.shape for pair in layers for tensor in pair} != {(heads, size, dim)}:
        raise AttangentError("peft needs the same heads in every layer, with keys and values of one size")
    # peft reshapes each virtual token to (2 layers, heads, d): keys and values of a layer alternate.
    rows = torch.stack([tensor for pair in layers for tensor in pair])  # (2 layers, heads, size, d)
    flat = rows.permute(2, 0, 1, 3).reshape(size, -1).contiguous().float().cpu()
    config = CartridgeConfig(
        task_type="CAUSAL_LM",
        inference_mode=True,
        num_virtual_tokens=size,
        num_layers=len(layers),
        token_dim=heads * dim,
        num_attention_heads=heads,
        num_transformer_submodules=1,
        num_frozen_tokens=1,
        base_model_name_or_path=getattr(model.config, "_name_or_path", "") or None,
    )
    with writing(folder / "adapter_model.safetensors") as part:
        save_file({"prompt_embeddings": flat}, part)
    config.save_pretrained(str(folder))
    return folder


def composed(prompts: Sequence[CompressedPrompt]) -> CompressedPrompt:
    """Combine several prompts."""
    return reduce(CompressedPrompt.add, prompts)


def load_compressed(model: Any, tokenizer: Any, folder: str | PathLike[str], name: str = "default") -> Reader:
    """Attach the compressed prompt of a folder.

    Args:
        model: The bare model for which the prompt was compressed.
        tokenizer: Its tokenizer.
        folder: Folder that `attangent compress` or `CompressedPrompt.save` wrote.
        name: Name of the adapter.

    Returns:
        The reader that turns questions after the prompt into tokens.

    Raises:
        AttangentError: If the folder holds no compressed prompt or one for another tokenizer.
    """
    notes = read_notes(folder)
    if notes["tokenizer"] != fingerprint(tokenizer):
        raise AttangentError(
            f"the prompt in {folder} was compressed with another tokenizer; load the tokenizer of its model"
        )
    load_adapter(model, folder, name)
    return Reader(tuple(notes["roles"]))


def read_notes(folder: str | PathLike[str]) -> dict[str, Any]:
    """Return the notes that `save` wrote next to the adapter."""
    path = Path(folder) / NOTES
    _check_ours(path.parent)
    if not path.is_file() or path.stat().st_size > _LARGEST_NOTES:
        raise AttangentError(f"there is no file {path}; pass a folder that `attangent compress` wrote")
    try:
        notes = read_json(path)
        complete = isinstance(notes["tokenizer"], str) and all(
            isinstance(role, str) for role in notes["roles"]
        )
        complete = complete and all(isinstance(notes[name], int) for name in ("size", "prompt_tokens"))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise AttangentError(f"{path} was not written by `attangent compress`: {error}") from None
    if not complete:
        raise AttangentError(f"{path} was not written by `attangent compress`")
    return notes


def _check_ours(folder: Path) -> None:
    """Raise AttangentError, with the reason, if a folder holds the adapter of another engine."""
    path = folder / CONFIG
    if not path.is_file() or path.stat().st_size > _LARGEST_NOTES:
        return
    try:
        kind = json.loads(path.read_text()).get("peft_type")
    except (ValueError, AttributeError, RecursionError, OSError):
        return
    if kind != PEFT_TYPE:
        raise AttangentError(
            f"{folder} holds a {kind} adapter of peft, not a prompt in attangent's layout; load it with "
            "peft.PeftModel.from_pretrained"
        )
