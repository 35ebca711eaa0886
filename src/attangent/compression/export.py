"""A compressed prompt as other engines hold it: a cache of transformers, a CARTRIDGE adapter of peft.

They count positions from the number of tokens they hold, not from the length of the prompt: keys are rotated
back by the difference, which leaves every distance between tokens as it was.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attangent._core.checks import check_choice
from attangent._core.errors import AttangentError
from attangent._core.files import real_folder, writing
from attangent.adapters.layers import attention_layers
from attangent.attention import PrefixState
from attangent.attention.features import Anchors

if TYPE_CHECKING:
    from attangent.compression.result import CompressedPrompt

EXPORTS = ("peft",)


_CLOSE = 1e-3


def check_export(kind: str | None) -> None:
    """Refuse a layout that cannot be written, before any work."""
    if kind is not None:
        check_choice("export", kind, EXPORTS)


def check_exportable(model: Any, long: bool) -> None:
    """Refuse a model whose keys cannot be moved, and a prompt that is read in pieces, before any work."""
    Rotation.of(model)
    if long:
        raise AttangentError(
            "the model cannot read the prompt at once, and a prompt in pieces cannot be exported: leave "
            "--export out, or shorten the prompt"
        )


@dataclass(frozen=True)
class Rotation:
    """Rotary positions: the angles (d/2) by which a key turns for each position."""

    frequencies: Tensor

    def moved(self, keys: Tensor, by: int) -> Tensor:
        """Keys (..., d) as they would be `by` positions later."""
        angle = (by * self.frequencies.double()).repeat(2)
        first, second = keys.double().chunk(2, dim=-1)
        turned = torch.cat([-second, first], dim=-1)
        return (keys.double() * angle.cos() + turned * angle.sin()).to(keys.dtype)

    @classmethod
    def of(cls, model: Any) -> "Rotation":
        """The rotation of a model with rotary positions, the same in all layers; others are refused."""
        found = [buffer for name, buffer in model.named_buffers() if name.endswith("rotary_emb.inv_freq")]
        sizes = {layer.key_size for layer in attention_layers(model)}
        reason = "it has no rotary positions, or different ones in different layers"
        if len(found) == 1 and sizes == {2 * len(found[0])}:
            rotation = cls(found[0].detach().cpu())
            if rotation._fits(model):
                return rotation
            reason = "its positions are not rotations of a key's two halves"
        raise AttangentError(
            f"the keys of {type(model).__name__} cannot be moved to other positions: {reason}; use attach or "
            "save, which keep the positions of the prompt"
        )

    def _fits(self, model: Any) -> bool:
        """Whether a token's key at position 7 is its key at position 0, moved by 7."""
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


def plain_tokens(found: "CompressedPrompt") -> list[tuple[Tensor, Tensor]]:
    """Keys and values (Hkv, size, d) of each layer, as they are at positions 0 to size - 1.

    Refused where heads differ in size, where tokens have masses of their own, or where the positions of the
    model cannot be moved.
    """
    states = list(found.states.values())
    equal = all(isinstance(state, PrefixState) and isinstance(state.features, Anchors) for state in states)
    sizes = {state.features.size for state in states}
    if not equal or len(sizes) > 1 or any((state.k != 1).any() for state in states):
        raise AttangentError(
            f"a prompt compressed by {found.method!r} has sizes or masses that a plain KV cache cannot hold: "
            "compress it with method='plain'"
        )
    if found.rotation is None:
        raise AttangentError("the model's positions cannot be moved: use attach or save, which keep them")
    by = sizes.pop() - found.position_offset
    return [
        (found.rotation.moved(state.features.keys.detach(), by), state.Z.detach())  # type: ignore[union-attr]
        for state in states
    ]


def transformers_cache(found: "CompressedPrompt", batch: int) -> Any:
    """A DynamicCache that holds the prompt for each sequence of a batch."""
    from transformers import DynamicCache

    cache = DynamicCache()
    for place, pair in enumerate(plain_tokens(found)):
        keys, values = (tensor.expand(batch, -1, -1, -1).clone() for tensor in pair)
        cache.update(keys, values, place)
    return cache


def write_peft(found: "CompressedPrompt", model: Any, folder: Path) -> Path:
    """Write a CARTRIDGE adapter that plain peft loads: adapter_config.json and adapter_model.safetensors."""
    from peft import CartridgeConfig
    from safetensors.torch import save_file

    layers = plain_tokens(found)
    heads, size, dim = layers[0][0].shape
    if {tensor.shape for pair in layers for tensor in pair} != {(heads, size, dim)}:
        raise AttangentError("layers with different heads, or keys and values of different sizes, do not fit")
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
    real_folder(folder)
    with writing(folder / "adapter_model.safetensors") as part:
        save_file({"prompt_embeddings": flat}, part)
    config.save_pretrained(str(folder))
    return folder
