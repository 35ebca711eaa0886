"""Prompts as token ids: plain text or the first messages of a chat, and how a question behind them looks."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attangent._core.checks import is_whole
from attangent._core.errors import AttangentError
from attangent.adapters.layers import attention_layers
from attangent.adapters.record import find_record

Message = Mapping[str, str]
Prompt = str | Sequence[Message]
"""Plain text, or the first messages of a chat."""
_MARK = "attangent"
"""A content by which the parts of a template are told apart."""


@dataclass(frozen=True)
class Reader:
    """How text behind a prompt becomes tokens: as it is, or as a turn of a chat after these roles."""

    roles: tuple[str, ...] = ()

    def question(self, tokenizer: Any, text: str) -> Tensor:
        """The tokens (L) of a question behind the prompt, up to where the answer begins."""
        return tokens_of(tokenizer, self._turn(tokenizer, text) if self.roles else text)

    def later_question(self, tokenizer: Any, text: str) -> Tensor:
        """The tokens (L) of a question behind an answer, beginning with what ends the answer."""
        if not self.roles:
            return self.question(tokenizer, text)
        answered = [
            *self._before(),
            {"role": "user", "content": "."},
            {"role": "assistant", "content": _MARK},
        ]
        _check_template(tokenizer)
        _, found, end = tokenizer.apply_chat_template(answered, tokenize=False).rpartition(_MARK)
        if not found:
            return self.question(tokenizer, text)
        return tokens_of(tokenizer, end + _behind(tokenizer, answered, [{"role": "user", "content": text}]))

    def opening(self, tokenizer: Any) -> Tensor:
        """The tokens (L) with which whatever follows the prompt begins; none behind plain text."""
        if not self.roles:
            return torch.zeros(0, dtype=torch.long)
        before, found, _ = self._turn(tokenizer, _MARK).partition(_MARK)
        return tokens_of(tokenizer, before) if found else torch.zeros(0, dtype=torch.long)

    def _turn(self, tokenizer: Any, text: str) -> str:
        return _behind(tokenizer, self._before(), [{"role": "user", "content": text}])

    def _before(self) -> list[dict[str, str]]:
        return [{"role": role, "content": "."} for role in self.roles]


def read_prompt(tokenizer: Any, prompt: Any) -> tuple[Tensor, Reader]:
    """The tokens (m) of a prompt and the reader of what follows it."""
    if isinstance(prompt, str):
        ids, reader = _begun(tokenizer, tokens_of(tokenizer, prompt)), Reader()
    elif _are_messages(prompt):
        _check_template(tokenizer)
        text = tokenizer.apply_chat_template(list(prompt), tokenize=False)
        ids, reader = tokens_of(tokenizer, text), Reader(tuple(message["role"] for message in prompt))
    else:
        raise AttangentError(
            f"prompt is {type(prompt).__name__}, expected text or chat messages such as "
            "[{'role': 'system', 'content': '...'}]"
        )
    if len(ids) == 0:
        raise AttangentError("the prompt is empty, expected at least one token: there is nothing to compress")
    return ids, reader


def check_model(model: Any, tokenizer: Any) -> None:
    """A bare causal language model that goes with this tokenizer."""
    attention_layers(model)
    name, config = type(model).__name__, model.config
    causal = callable(getattr(model, "can_generate", None)) and model.can_generate()
    if not causal or getattr(config, "is_encoder_decoder", False):
        raise AttangentError(f"{name} is not a causal language model, expected one such as LlamaForCausalLM")
    if find_record(model) is not None:
        raise AttangentError(
            f"{name} has adapters attached, expected a bare model: call attangent.detach first"
        )
    if any(getattr(layer.module, "is_causal", True) is False for layer in attention_layers(model)):
        raise AttangentError(
            f"{name} is an encoder, whose tokens see those behind them: expected a causal language model"
        )
    if not hasattr(tokenizer, "get_vocab"):
        raise AttangentError(f"tokenizer is {type(tokenizer).__name__}, expected the model's tokenizer")
    rows, words = model.get_input_embeddings().num_embeddings, len(tokenizer)
    if words > rows:
        raise AttangentError(
            f"the tokenizer has {words} tokens and {name} knows {rows}: it belongs to another model; load "
            "both from the same folder"
        )


def longest_piece(model: Any, behind: int) -> int | None:
    """The most tokens that can be read at once with `behind` more after them; None without a bound."""
    config = model.config
    context = getattr(config, "max_position_embeddings", None)
    window = getattr(config, "sliding_window", None) if sliding_layers(model) else None
    bounds = [bound - behind for bound in (context, window) if bound is not None]
    return min(bounds) if bounds else None


def is_long(model: Any, ids: Tensor, behind: int) -> bool:
    """Whether a prompt cannot be read at once."""
    most = longest_piece(model, behind)
    return most is not None and len(ids) > most


def sliding_layers(model: Any) -> set[str]:
    """The names of the layers that see only the last tokens."""
    config, layers = model.config, attention_layers(model)
    if getattr(config, "sliding_window", None) is None:
        return set()
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"] * len(layers)
    return {layer.name for layer, kind in zip(layers, kinds, strict=False) if kind == "sliding_attention"}


def check_length(model: Any, length: int, behind: int) -> None:
    """A prompt of `length` tokens fits into the context with `behind` more, and all layers see all of it."""
    config = model.config
    context = getattr(config, "max_position_embeddings", None)
    if context is not None and length + behind > context:
        raise AttangentError(
            f"the prompt has {length} tokens and {behind} more are needed behind it, but the context of "
            f"{type(model).__name__} is {context}: cut the prompt or compress its parts one by one"
        )
    window = getattr(config, "sliding_window", None)
    if window is not None and sliding_layers(model) and length + behind > window:
        raise AttangentError(
            f"{type(model).__name__} has layers that see only the last {window} tokens, and the prompt has "
            f"{length}: a state would show them what they cannot see; expected a shorter prompt"
        )


def fingerprint(tokenizer: Any) -> str:
    """A digest of the tokenizer's vocabulary."""
    vocabulary = json.dumps(sorted(tokenizer.get_vocab().items()))
    return hashlib.sha256(vocabulary.encode()).hexdigest()[:16]


def tokens_of(tokenizer: Any, text: str) -> Tensor:
    """The tokens (L) of a text as it is, without special ones."""
    if not is_whole(text):
        raise AttangentError("the text holds half a letter (a surrogate without the other): take it out")
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return torch.tensor(list(ids), dtype=torch.long)


def _begun(tokenizer: Any, ids: Tensor) -> Tensor:
    """The tokens (m) of a text behind the one that every text of this tokenizer begins with, if any.

    Models that were trained with it (Gemma, Llama) answer much worse without. Templates of chats write it.
    """
    bos = getattr(tokenizer, "bos_token_id", None)
    if bos is None or len(ids) == 0 or ids[0] == bos or tokenizer("a")["input_ids"][0] != bos:
        return ids
    return torch.cat([ids.new_tensor([bos]), ids])


def _behind(tokenizer: Any, before: list[dict[str, str]], after: list[dict[str, str]]) -> str:
    """What the template writes for the messages `after`, behind those `before`, up to the answer."""
    _check_template(tokenizer)
    head = tokenizer.apply_chat_template(before, tokenize=False)
    whole = tokenizer.apply_chat_template([*before, *after], tokenize=False, add_generation_prompt=True)
    if not whole.startswith(head):
        raise AttangentError(
            "the chat template changes earlier messages when one is added, so that none can be compressed: "
            "render the prompt yourself and give it as text"
        )
    return whole[len(head) :]


def _check_template(tokenizer: Any) -> None:
    if not getattr(tokenizer, "chat_template", None):
        raise AttangentError("the prompt is a chat, but the tokenizer has no chat template: give it as text")


def _are_messages(prompt: Any) -> bool:
    if isinstance(prompt, str) or not isinstance(prompt, Sequence) or not prompt:
        return False
    return all(isinstance(m, Mapping) and {"role", "content"} <= set(m) for m in prompt)
