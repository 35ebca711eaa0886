"""A compressed prompt: states, and what must be known to use them; attached, saved, loaded, composed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from os import PathLike
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from attangent._core.display import brief, facts_html
from attangent._core.errors import AttangentError
from attangent._core.files import write_json
from attangent._core.settings import read_json
from attangent.adapters.attaching import attach
from attangent.adapters.config import NTKConfig
from attangent.adapters.files.format import CONFIG, PEFT_TYPE
from attangent.adapters.files.save import load_adapter, write_adapter
from attangent.adapters.record import find_record
from attangent.attention import PrefixState, RaggedState
from attangent.compression.export import Rotation, transformers_cache, write_peft
from attangent.compression.methods import DEFAULT, method_named
from attangent.compression.problem import PromptState
from attangent.compression.prompt import Reader, fingerprint

NOTES = "compressed_prompt.json"
_LARGEST_NOTES = 1 << 20


@dataclass(frozen=True, repr=False)
class CompressedPrompt:
    """A state for each layer, by name, and how text behind the prompt is read.

    position_offset: the prompt's length, by which the positions of all tokens are moved;
    size: virtual tokens for each KV head; roles: those of the messages, empty for plain text;
    tokenizer: a digest of its vocabulary; exact: whether the prompt was kept whole; rotation: the model's
    positions, where they are rotary.
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
            "tokens for each head, in the mean": self.size,
            "method": self.method,
            "layers": len(self.states),
            "bytes": f"{self.number_of_bytes:,}",
        }
        return facts_html("Compressed prompt", facts, ["attach(model) puts it in front, save keeps it"])

    @property
    def config(self) -> NTKConfig:
        """What `attach` is given beside the states."""
        return method_named(self.method).config(self.size, self.position_offset)

    @property
    def reader(self) -> Reader:
        return Reader(self.roles)

    @property
    def number_of_bytes(self) -> int:
        tensors = [tensor for state in self.states.values() for tensor in state.state_dict().values()]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def attach(self, model: Any, name: str = "default") -> Any:
        """Put the prompt in front of everything the model reads; `attangent.detach` takes it off."""
        return attach(model, self.config, name, states=self.states)

    def cache(self, batch: int = 1) -> Any:
        """A new cache of transformers for `generate(ids, past_key_values=...)`; needs method `plain`.

        transformers wants the ids of the whole input, of which it skips as many as the cache holds: give it
        those of `behind`.
        """
        return transformers_cache(self, batch)

    def behind(self, ids: Tensor) -> Tensor:
        """ids (B, L) with a place in front for each token of the cache."""
        return F.pad(ids, (self.size, 0))

    def export_peft(self, model: Any, folder: str | PathLike[str]) -> Path:
        """Write the prompt as a CARTRIDGE adapter of peft; needs method `plain`."""
        return write_peft(self, model, Path(folder))

    def save(self, model: Any, folder: str | PathLike[str]) -> Path:
        """Write the adapter of a bare model to a folder; `attangent.load_adapter` reads it."""
        if find_record(model) is not None:
            raise AttangentError(
                "the model has adapters attached, expected a bare one: call attangent.detach first"
            )
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
        return place

    def add(self, other: "CompressedPrompt") -> "CompressedPrompt":
        """Both prompts side by side: states add up; each prompt begins at position 0."""
        if set(self.states) != set(other.states) or self.tokenizer != other.tokenizer:
            raise AttangentError("compressed prompts of different models cannot be composed")
        return CompressedPrompt(
            joined_states(self.states, other.states),
            max(self.position_offset, other.position_offset),
            self.size + other.size,
            self.method if self.method == other.method else DEFAULT,
            self.roles if self.roles == other.roles else (),
            self.tokenizer,
            distilled=max(self.distilled, other.distilled),
        )


def joined_states(
    before: Mapping[str, PromptState], after: Mapping[str, PromptState]
) -> dict[str, PromptState]:
    """The states of both by layer, in the order of `after`; a layer that only one of them has keeps that."""
    joined = {name: _added(before[name], own) if name in before else own for name, own in after.items()}
    return {**joined, **{name: own for name, own in before.items() if name not in after}}


def _added(one: PromptState, other: PromptState) -> PromptState:
    if isinstance(one, PrefixState) and isinstance(other, PrefixState):
        return one.add(other)
    return (one if isinstance(one, RaggedState) else RaggedState.from_state(one)).add(other)


def composed(parts: Sequence[CompressedPrompt]) -> CompressedPrompt:
    """Several prompts side by side."""
    return reduce(CompressedPrompt.add, parts)


def load_compressed(model: Any, tokenizer: Any, folder: str | PathLike[str], name: str = "default") -> Reader:
    """Attach the compressed prompt in a folder; returned is the reader of what is asked behind it."""
    notes = read_notes(folder)
    if notes["tokenizer"] != fingerprint(tokenizer):
        raise AttangentError(
            f"the prompt in {folder} was compressed with another tokenizer: load the one of its model"
        )
    load_adapter(model, folder, name)
    return Reader(tuple(notes["roles"]))


def read_notes(folder: str | PathLike[str]) -> dict[str, Any]:
    """What `save` wrote beside the adapter."""
    path = Path(folder) / NOTES
    _refuse_foreign(path.parent)
    if not path.is_file() or path.stat().st_size > _LARGEST_NOTES:
        raise AttangentError(f"there is no file {path}, expected a folder that `attangent compress` wrote")
    try:
        notes = read_json(path)
        whole = isinstance(notes["tokenizer"], str) and all(isinstance(role, str) for role in notes["roles"])
        whole = whole and all(isinstance(notes[name], int) for name in ("size", "prompt_tokens"))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise AttangentError(f"{path} is not what `attangent compress` writes: {error}") from None
    if not whole:
        raise AttangentError(f"{path} is not what `attangent compress` writes")
    return notes


def _refuse_foreign(folder: Path) -> None:
    """Refuse the adapter of another engine with the reason."""
    path = folder / CONFIG
    if not path.is_file() or path.stat().st_size > _LARGEST_NOTES:
        return
    try:
        kind = json.loads(path.read_text()).get("peft_type")
    except (ValueError, AttributeError, RecursionError, OSError):
        return
    if kind != PEFT_TYPE:
        raise AttangentError(
            f"{folder} holds a {kind} adapter of peft, not a prompt in attangent's layout: load it with "
            "peft.PeftModel.from_pretrained"
        )
