"""Prompts as token ids: plain text or the first messages of a chat, and the form of questions after them."""

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
from attangent.compression.text import LENGTH

Message = Mapping[str, str]
# Plain text, or the first messages of a chat.
Prompt = str | Sequence[Message]
# A content that marks a position in the output of a chat template.
_MARK = "attangent"


@dataclass(frozen=True)
class Reader:
    """Turns text after a prompt into tokens.

    Attributes:
        roles: Roles of the prompt's messages. Without any, text is read unchanged.
    """

    roles: tuple[str, ...] = ()

    def question(self, tokenizer: Any, text: str) -> Tensor:
        """Return the tokens (L) of a question after the prompt."""
        return tokens_of(tokenizer, self._turn(tokenizer, text) if self.roles else text)

    def later_question(self, tokenizer: Any, text: str) -> Tensor:
        """Return the tokens (L) of a question after an answer, beginning with the end of that answer."""
        return self._after_answer(tokenizer, text) if self.roles else self.question(tokenizer, text)

    def _after_answer(self, tokenizer: Any, text: str) -> Tensor:
        answered = [
            *self._before(),
            {"role": "user", "content": "."},
            {"role": "assistant", "content": _MARK},
        ]
        _check_template(tokenizer)
        _, mark, end = tokenizer.apply_chat_template(answered, tokenize=False).rpartition(_MARK)
        if not mark:
            return self.question(tokenizer, text)
        return tokens_of(tokenizer, end + _after(tokenizer, answered, [{"role": "user", "content": text}]))

    def chat(self, tokenizer: Any, messages: Sequence[Message]) -> Tensor:
        """Return the tokens (L) of messages after the prompt, up to the next answer."""
        if self.roles:
            return tokens_of(tokenizer, _after(tokenizer, self._before(), [dict(each) for each in messages]))
        return tokens_of(tokenizer, "\n".join(message["content"] for message in messages))

    def opening(self, tokenizer: Any) -> Tensor:
        """Return the tokens (L) with which any turn after the prompt begins; none after plain text."""
        if not self.roles:
            return torch.zeros(0, dtype=torch.long)
        before, mark, _ = self._turn(tokenizer, _MARK).partition(_MARK)
        return tokens_of(tokenizer, before) if mark else torch.zeros(0, dtype=torch.long)

    def _turn(self, tokenizer: Any, text: str) -> str:
        return _after(tokenizer, self._before(), [{"role": "user", "content": text}])

    def _before(self) -> list[dict[str, str]]:
        return [{"role": role, "content": "."} for role in self.roles]


class BareReader(Reader):
    """Turns the turns of a chat without a prompt into tokens: by the chat template, else one line each."""

    def question(self, tokenizer: Any, text: str) -> Tensor:
        """Return the tokens (L) of the first question."""
        return self.chat(tokenizer, [{"role": "user", "content": text}])

    def chat(self, tokenizer: Any, messages: Sequence[Message]) -> Tensor:
        """Return the tokens (L) of a chat, up to the next answer."""
        if not getattr(tokenizer, "chat_template", None):
            text = "".join(f"{message['content']}\n" for message in messages)
            return torch.tensor(list(tokenizer(text)["input_ids"]), dtype=torch.long)
        turns = [dict(message) for message in messages]
        return tokens_of(
            tokenizer, tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        )

    def later_question(self, tokenizer: Any, text: str) -> Tensor:
        """Return the tokens (L) of a question after an answer."""
        if not getattr(tokenizer, "chat_template", None):
            return tokens_of(tokenizer, f"\n{text}\n")
        return self._after_answer(tokenizer, text)


def read_prompt(tokenizer: Any, prompt: Any) -> tuple[Tensor, Reader]:
    """Return the tokens (m) of a prompt and the reader of the text after it.

    Raises:
        AttangentError: If the prompt is empty or neither text nor chat messages.
    """
    if isinstance(prompt, str):
        ids = _with_bos(tokenizer, tokens_of(tokenizer, prompt))
        reader = Reader()
    else:
        messages = plain_messages(prompt)
        _check_template(tokenizer)
        ids = tokens_of(tokenizer, tokenizer.apply_chat_template(messages, tokenize=False))
        reader = Reader(tuple(message["role"] for message in messages))
    if len(ids) == 0:
        raise AttangentError("the prompt is empty; pass at least one token")
    return ids, reader


def as_prompt(content: Any, tokenizer: Any) -> Any:
    """Return the content; text becomes a system message if the tokenizer has a chat template."""
    is_system = isinstance(content, str) and getattr(tokenizer, "chat_template", None)
    return [{"role": "system", "content": content.strip()}] if is_system else content


def check_model(model: Any, tokenizer: Any) -> None:
    """Raise AttangentError unless this is a bare causal language model with its own tokenizer."""
    layers = attention_layers(model)
    name = type(model).__name__
    causal = callable(getattr(model, "can_generate", None)) and model.can_generate()
    if not causal or getattr(model.config, "is_encoder_decoder", False):
        raise AttangentError(f"{name} is not a causal language model; pass one such as LlamaForCausalLM")
    if find_record(model) is not None:
        raise AttangentError(f"{name} has adapters attached; call attangent.detach first")
    if any(getattr(layer.module, "is_causal", True) is False for layer in layers):
        raise AttangentError(
            f"{name} is an encoder, whose tokens see later ones; pass a causal language model"
        )
    if not hasattr(tokenizer, "get_vocab"):
        raise AttangentError(f"tokenizer must be the model's tokenizer (got {type(tokenizer).__name__})")
    rows = model.get_input_embeddings().num_embeddings
    if len(tokenizer) > rows:
        raise AttangentError(
            f"the tokenizer has {len(tokenizer)} tokens and {name} knows {rows}: it belongs to another "
            "model; load both from the same folder"
        )


def longest_piece(model: Any) -> int | None:
    """Return the maximum number of tokens that leave room for a sample after them; None without a bound."""
    config = model.config
    context = getattr(config, "max_position_embeddings", None)
    window = getattr(config, "sliding_window", None) if sliding_layers(model) else None
    bounds = [bound - LENGTH for bound in (context, window) if bound is not None]
    return min(bounds) if bounds else None


def is_long(model: Any, ids: Tensor) -> bool:
    """Return whether a prompt does not fit into the model's context."""
    most = longest_piece(model)
    return most is not None and len(ids) > most


def sliding_layers(model: Any) -> set[str]:
    """Return the names of the layers with a sliding window."""
    layers = attention_layers(model)
    if getattr(model.config, "sliding_window", None) is None:
        return set()
    kinds = getattr(model.config, "layer_types", None) or ["sliding_attention"] * len(layers)
    return {layer.name for layer, kind in zip(layers, kinds, strict=False) if kind == "sliding_attention"}


def check_length(model: Any, length: int) -> None:
    """Raise AttangentError if `length` tokens and a sample after them exceed the context or a window."""
    most = longest_piece(model)
    if most is not None and length > most:
        raise AttangentError(
            f"the prompt has {length} tokens, but {type(model).__name__} sees only {most + LENGTH} "
            f"at once and {LENGTH} more must fit after it; shorten the prompt or compress its parts"
        )


def fingerprint(tokenizer: Any) -> str:
    """Return a digest of the tokenizer's vocabulary."""
    vocabulary = json.dumps(sorted(tokenizer.get_vocab().items()))
    return hashlib.sha256(vocabulary.encode()).hexdigest()[:16]


def tokens_of(tokenizer: Any, text: str) -> Tensor:
    """Return the tokens (L) of a text without special ones."""
    if not is_whole(text):
        raise AttangentError("the text has a surrogate without its other half; remove it")
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return torch.tensor(list(ids), dtype=torch.long)


def _with_bos(tokenizer: Any, ids: Tensor) -> Tensor:
    """Put the token with which this tokenizer begins every text, if any, before the tokens (m)."""
    # Models trained with it (Gemma, Llama) answer much worse without. Chat templates write it themselves.
    bos = getattr(tokenizer, "bos_token_id", None)
    if bos is None or len(ids) == 0 or ids[0] == bos or tokenizer("a")["input_ids"][0] != bos:
        return ids
    return torch.cat([ids.new_tensor([bos]), ids])


def _after(tokenizer: Any, before: list[dict[str, str]], after: list[dict[str, str]]) -> str:
    """Return what the template writes for the messages `after`, up to the answer."""
    _check_template(tokenizer)
    head = tokenizer.apply_chat_template(before, tokenize=False)
    text = tokenizer.apply_chat_template([*before, *after], tokenize=False, add_generation_prompt=True)
    if not text.startswith(head):
        raise AttangentError(
            "the chat template changes earlier messages when one is added, so none can be compressed; "
            "render the prompt yourself and pass it as text"
        )
    return text[len(head) :]


def _check_template(tokenizer: Any) -> None:
    if not getattr(tokenizer, "chat_template", None):
        raise AttangentError("the prompt is a chat, but the tokenizer has no chat template; pass text")


def plain_messages(prompt: Any) -> list[dict[str, Any]]:
    """Return chat messages with text as content; a content of several text parts is joined.

    Raises:
        AttangentError: If these are no chat messages, or a part is not text; it names the message.
    """
    if not isinstance(prompt, Sequence) or not prompt:
        raise AttangentError(f"prompt must be {_EXPECTED} (got {type(prompt).__name__})")
    for number, message in enumerate(prompt, 1):
        if not _is_message(message):
            raise AttangentError(
                f"message {number} of the prompt is {message!r:.60}; the prompt must be {_EXPECTED}"
            )
    return [
        {**message, "content": _content_text(message["content"], number)}
        for number, message in enumerate(prompt, 1)
    ]


_EXPECTED = "text or chat messages such as [{'role': 'system', 'content': '...'}]"


def _is_message(message: Any) -> bool:
    return isinstance(message, Mapping) and isinstance(message.get("role"), str) and "content" in message


def _content_text(content: Any, number: int) -> str:
    """Return the text of message `number`: its content, or the texts of its parts below each other."""
    parts = [content] if isinstance(content, str) else content
    if not isinstance(parts, Sequence) or not parts:
        raise AttangentError(
            f"message {number} of the prompt has the content {content!r:.60}, expected text or a list of "
            "text parts"
        )
    texts: list[str] = []
    for part in parts:
        text = part.get("text") if isinstance(part, Mapping) else part
        if not isinstance(text, str):
            kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
            raise AttangentError(
                f"message {number} of the prompt has a part of type {kind!r:.60}, expected only text; "
                "remove the part"
            )
        texts.append(text)
    return "\n".join(texts)
