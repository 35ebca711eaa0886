"""A chat behind a compressed prompt, whose old turns are folded into the state when they grow too many."""

from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import torch
from torch import Tensor

from attangent._core.checks import check_size
from attangent.adapters.attaching import detach
from attangent.adapters.record import states_of
from attangent.compression.compressor import Compressor
from attangent.compression.problem import Piece
from attangent.compression.prompt import Reader, fingerprint
from attangent.compression.quiz.answers import ANSWER_TOKENS
from attangent.compression.result import CompressedPrompt, load_compressed, read_notes

_FOLDED = 32


@dataclass
class ChatSession:
    """Turns of a chat on a bare model: `say` answers and remembers.

    budget: when more tokens than this have been said, all turns so far are folded into the state as `folded`
    virtual tokens for each KV head, and the chat goes on behind them; None never folds.

    The prompt may be one that `compress` gave, or None for a chat without any.
    """

    model: Any
    tokenizer: Any
    prompt: CompressedPrompt | None = None
    budget: int | None = None
    folded: int = _FOLDED
    folds: int = field(init=False, default=0)
    turns: int = field(init=False, default=0)
    said: Tensor = field(init=False)

    def __post_init__(self) -> None:
        if self.budget is not None:
            check_size("budget", self.budget, least=self.folded + 1)
        self.said = torch.zeros(0, dtype=torch.long)
        if self.prompt is None:
            self.prompt = CompressedPrompt({}, 0, 0, "recall", (), fingerprint(self.tokenizer))

    @classmethod
    def load(
        cls, model: Any, tokenizer: Any, folder: str | PathLike[str], budget: int | None = None
    ) -> "ChatSession":
        """A chat behind the compressed prompt in a folder."""
        reader, notes = load_compressed(model, tokenizer, folder), read_notes(folder)
        states = dict(states_of(model, "default"))
        detach(model)
        prompt = CompressedPrompt(
            states, notes["prompt_tokens"], notes["size"], notes["method"], reader.roles, notes["tokenizer"]
        )
        return cls(model, tokenizer, prompt, budget)

    @property
    def reader(self) -> Reader:
        assert self.prompt is not None
        return self.prompt.reader

    @property
    def tokens(self) -> int:
        """How many tokens have been said since the last fold."""
        return len(self.said)

    def say(self, text: str, tokens: int = ANSWER_TOKENS) -> str:
        """The answer to `text`, by the likeliest tokens."""
        ask = self.reader.later_question if self.turns else self.reader.question
        asked = ask(self.tokenizer, text)
        given = torch.cat([self.said, asked])
        answer = self._written(given, tokens)
        self.said, self.turns = torch.cat([given, answer]), self.turns + 1
        if self.budget is not None and self.tokens > self.budget:
            self._fold()
        return self.tokenizer.decode(answer.tolist(), skip_special_tokens=True).strip()

    def _written(self, given: Tensor, tokens: int) -> Tensor:
        """The likeliest tokens behind `given`, the end of the text left out."""
        assert self.prompt is not None
        if self.prompt.states:
            self.prompt.attach(self.model)
        try:
            ids = given[None].to(self.model.device)
            with torch.no_grad():
                out = self.model.generate(
                    input_ids=ids,
                    attention_mask=torch.ones_like(ids),
                    max_new_tokens=tokens,
                    do_sample=False,
                    pad_token_id=getattr(self.tokenizer, "eos_token_id", None),
                )
        finally:
            if self.prompt.states:
                detach(self.model)
        answer = out[0, len(given) :].cpu()
        return answer[:-1] if len(answer) and answer[-1].item() in self._ends() else answer

    def _ends(self) -> set[int]:
        """The tokens with which the model ends what it says."""
        config = getattr(self.model.generation_config, "eos_token_id", None)
        ends = config if isinstance(config, list) else [config]
        return {end for end in (*ends, getattr(self.tokenizer, "eos_token_id", None)) if end is not None}

    def _fold(self) -> None:
        """Replace all turns by virtual tokens behind those of the prompt."""
        assert self.prompt is not None
        piece = Piece(self.said, self.prompt.position_offset, self.prompt.states)
        text = self.tokenizer.decode(self.said.tolist())
        job = Compressor(self.model, self.tokenizer, text, calibration=[text], piece=piece)
        found = job.fit(self.folded)
        self.prompt = replace(found, roles=self.prompt.roles, size=self.prompt.size + found.size, exact=False)
        self.said, self.folds = self.said[:0], self.folds + 1
