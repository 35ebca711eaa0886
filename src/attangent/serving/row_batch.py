"""The texts that one network writes together: read prompts, join the batch, write a token per step."""

import inspect
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.adapters.record import Record, find_record, set_rows, states_of
from attangent.serving.generation import FinishReason, Generation, TextPiece, chance_of
from attangent.serving.slot_cache import KeyValue, PromptReuse, SlotCache

CHUNK = 256
"""Tokens of a prompt that are read between two steps of the running texts."""


@dataclass
class _Reading:
    """A prompt of which some tokens are read; `cache` holds their keys and values."""

    generation: Generation
    cache: Any
    read: int


class RowBatch:
    """The running texts of one network; each row has its own prefix and its own length.

    Args:
        network: A causal language model, to which all prefixes are attached.
        tokenizer: Its tokenizer.
        reuse: Keys and values of recent prompts.
    """

    def __init__(self, network: Any, tokenizer: Any, reuse: PromptReuse):
        self.network = network
        self.tokenizer = tokenizer
        self.reuse = reuse
        self.cache = SlotCache()
        self.running: list[Generation] = []
        self._reading: _Reading | None = None
        self._rows: tuple[str | None, ...] | None = None
        self._ends = _end_tokens(network)
        self._windows = _windows(network)
        self._penalty = float(getattr(network.generation_config, "repetition_penalty", None) or 1.0)
        self._last_only = "logits_to_keep" in inspect.signature(network.forward).parameters

    @property
    def vocabulary(self) -> int:
        """Return the number of tokens that the network knows."""
        return self.network.get_input_embeddings().num_embeddings

    @property
    def generations(self) -> list[Generation]:
        """Return everything that is being read or written."""
        return [*self.running, *([] if self._reading is None else [self._reading.generation])]

    @property
    def is_reading(self) -> bool:
        """Return whether a prompt is being read."""
        return self._reading is not None

    def begin(self, generation: Generation) -> None:
        """Start to read a prompt, after those of its tokens that an earlier one had in common."""
        from transformers import DynamicCache

        cache = DynamicCache()
        known, layers = self.reuse.find(generation.adapter, generation.ids)
        for index, (keys, values) in enumerate(layers):
            cache.update(keys, values, index)
        generation.reused = known
        self._reading = _Reading(generation, cache, known)

    def read_on(self) -> int:
        """Read the next tokens of the prompt, let it join the batch after the last, and return how many."""
        assert self._reading is not None
        reading = self._reading
        generation = reading.generation
        ids = generation.ids[reading.read : reading.read + CHUNK]
        self._assign((generation.adapter,))
        positions = torch.arange(reading.read, reading.read + len(ids))
        logits = self._forward(ids, positions, reading.cache)
        reading.read += len(ids)
        if reading.read == len(generation.ids):
            self._reading = None
            layers: list[KeyValue] = [(layer.keys, layer.values) for layer in reading.cache.layers]
            self.reuse.keep(generation.adapter, generation.ids, layers)
            self._join(generation, layers, logits[0, -1])
        return len(ids)

    def _forward(self, ids: list[int], positions: Tensor, cache: Any) -> Tensor:
        options: dict[str, Any] = {"logits_to_keep": 1} if self._last_only else {}
        with torch.no_grad():
            return self.network(
                input_ids=torch.tensor([ids]),
                position_ids=positions[None],
                past_key_values=cache,
                use_cache=True,
                **options,
            ).logits

    def _join(self, generation: Generation, layers: list[KeyValue], logits: Tensor) -> None:
        self.cache.add(layers)
        self.running.append(generation)
        if self._write(generation, logits):
            self._leave(len(self.running) - 1)

    def step(self) -> int:
        """Write one token per row and return the number of rows."""
        count = len(self.running)
        self._assign(tuple(generation.adapter for generation in self.running))
        self.cache.prepare()
        with torch.no_grad():
            logits = self.network(
                input_ids=torch.tensor([[generation.written[-1]] for generation in self.running]),
                attention_mask=self._masks(),
                position_ids=self.cache.lengths[:, None],
                past_key_values=self.cache,
                use_cache=True,
            ).logits[:, -1]
        self.cache.advance()
        ended = [self._write(row, of_row) for row, of_row in zip(self.running, logits, strict=True)]
        for row in reversed(range(count)):
            if ended[row]:
                self._leave(row)
        return count

    def drop(self, generation: Generation) -> None:
        """Drop a text, wherever it is."""
        if self._reading is not None and self._reading.generation is generation:
            self._reading = None
        elif generation in self.running:
            self._leave(self.running.index(generation))

    def clear(self) -> list[Generation]:
        """Drop all texts, after a step has failed, and return them."""
        dropped = self.generations
        self.running = []
        self._reading = None
        self.cache = SlotCache()
        self._rows = None
        return dropped

    def forget_rows(self) -> None:
        """Assign prefixes again before the next pass: those of the network have changed."""
        self._rows = None

    def _masks(self) -> Any:
        dtype = self.network.dtype
        masks = {kind: self.cache.mask(window, dtype) for kind, window in self._windows.items()}
        return masks if len(masks) > 1 else next(iter(masks.values()))

    def _assign(self, rows: tuple[str | None, ...]) -> None:
        """Give each row of the next pass its prefix."""
        record: Record | None = find_record(self.network)
        if record is None or rows == self._rows:
            return
        self._rows = rows
        set_rows(self.network, record, rows)

    def _write(self, generation: Generation, logits: Tensor) -> bool:
        """Choose the next token of a row, deliver its text and return whether the text has ended."""
        logits = self._penalised(generation, logits)
        token = generation.sampler.next(logits)
        chances = () if generation.top is None else (chance_of(logits, token, generation.top),)
        generation.written.append(token)
        if generation.first is None:
            generation.first = time.monotonic()
        at_end = token in self._ends
        text = "" if at_end else generation.stream.add(token)
        finish: FinishReason | None = None
        if at_end or generation.stream.stopped:
            finish = "stop"
        elif len(generation.written) >= generation.most_tokens:
            finish = "length"
        if finish is not None:
            text += generation.stream.finish()
            finish = "stop" if generation.stream.stopped else finish
        usage = None if finish is None else generation.usage(self.kv_bytes(generation))
        if text or chances or finish:
            generation.deliver(TextPiece(generation.choice, text, chances, finish, usage=usage))
        return finish is not None

    def _penalised(self, generation: Generation, logits: Tensor) -> Tensor:
        """Apply the repetition penalty of the model's generation config, as `generate` does."""
        if self._penalty == 1.0:
            return logits
        from transformers import RepetitionPenaltyLogitsProcessor

        seen: Any = torch.tensor([[*generation.ids, *generation.written]])
        return RepetitionPenaltyLogitsProcessor(self._penalty)(seen, logits[None])[0]

    def kv_bytes(self, generation: Generation) -> int:
        """Return the memory of the keys and values that a text sees: its tokens and its prefix."""
        tokens = len(generation.ids) + len(generation.written) - 1
        return tokens * self.cache.bytes_per_token() + self.prefix_bytes(generation.adapter)

    def prefix_bytes(self, adapter: str | None) -> int:
        """Return the memory of a prefix, which all of its rows share."""
        if adapter is None:
            return 0
        tensors = [
            t for state in states_of(self.network, adapter).values() for t in state.state_dict().values()
        ]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def _leave(self, row: int) -> None:
        last = self.cache.remove(row)
        self.running[row] = self.running[last]
        self.running.pop()


def _end_tokens(network: Any) -> set[int]:
    """Return the tokens that end a text, as transformers' `generate` reads them."""
    ends = network.generation_config.eos_token_id
    return set(ends if isinstance(ends, list) else [] if ends is None else [ends])


def _windows(network: Any) -> dict[str, int | None]:
    """Return the window of each kind of layer; None sees everything."""
    config = network.config.get_text_config()
    window = getattr(config, "sliding_window", None)
    kinds = dict.fromkeys(getattr(config, "layer_types", None) or ())
    unknown = set(kinds) - {"full_attention", "sliding_attention"}
    if unknown:
        raise AttangentError(
            f"{type(network).__name__} has {', '.join(sorted(unknown))} layers, whose state cannot be served "
            "in a batch; use a model with full or sliding attention"
        )
    if not kinds:
        return {"full_attention": window}
    return {kind: window if kind == "sliding_attention" else None for kind in kinds}
