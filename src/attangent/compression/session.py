"""Generate and chat with a compressed prompt, a tuned model or a bare one."""

from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.adapters.attaching import detach
from attangent.adapters.record import states_of
from attangent.compression.pipeline import CompressionRun
from attangent.compression.prompt import BareReader, Reader, fingerprint
from attangent.compression.prompt_cache import Piece
from attangent.compression.quiz import ANSWER_TOKENS
from attangent.compression.request import CompressionRequest
from attangent.compression.result import CompressedPrompt, load_compressed, read_notes

# Folded turns become this many times smaller, but not fewer virtual tokens per head than the second number.
_FOLDED_TIMES = 8
_FEWEST_FOLDED = 32


def generate(
    model: Any,
    tokenizer: Any,
    ids: Int[Tensor, " length"],
    tokens: int,
    temperature: float = 0.0,
    seed: int = 0,
) -> Int[Tensor, " new"]:
    """Return the tokens that a model, with whatever is attached to it, writes after `ids`.

    Args:
        model: A causal language model.
        tokenizer: Its tokenizer.
        ids: Tokens (L) of the input.
        tokens: Maximum number of new tokens.
        temperature: 0 takes the most likely tokens; above 0, tokens are drawn.
        seed: Seed of the draws.

    Returns:
        The new tokens, the end token included.

    Raises:
        AttangentError: If the model's table of positions is too short.
    """
    _check_positions(model.config, len(ids), tokens)
    inputs = ids[None].to(model.device)
    options: dict[str, Any] = {"do_sample": False}
    if temperature > 0:
        options = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
    # `generate` draws from the global stream; the fork leaves the caller's stream untouched.
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(generator(seed, "generate").initial_seed() % (1 << 63))
        out = model.generate(
            input_ids=inputs,
            attention_mask=torch.ones_like(inputs),
            max_new_tokens=tokens,
            pad_token_id=getattr(tokenizer, "eos_token_id", None),
            # A template ends an answer with a token that the model's own configuration may not name.
            eos_token_id=sorted(end_tokens(model, tokenizer)) or None,
            **options,
        )
    return out[0, len(ids) :].cpu()


def _check_positions(config: Any, length: int, tokens: int) -> None:
    """Rotary positions have no end; a learned table does."""
    limit = getattr(config, "max_position_embeddings", None)
    if limit is not None and not hasattr(config, "rope_parameters") and length + tokens > limit:
        raise AttangentError(
            f"the text has {length} tokens and {tokens} more are to be written, but the model has {limit} "
            f"positions: write at most {max(0, limit - length)} tokens, or shorten the text"
        )


def end_tokens(model: Any, tokenizer: Any) -> set[int]:
    """Return the tokens with which a model ends an answer."""
    config = getattr(model.generation_config, "eos_token_id", None)
    ends = config if isinstance(config, list) else [config]
    return {end for end in (*ends, getattr(tokenizer, "eos_token_id", None)) if end is not None}


def plain_ids(tokenizer: Any, text: str) -> Int[Tensor, " length"]:
    """Return the tokens of a text to continue, with the special tokens of the tokenizer."""
    return torch.tensor(list(tokenizer(text)["input_ids"]), dtype=torch.long)


def generate_text(
    model: Any, tokenizer: Any, ids: Tensor, tokens: int, temperature: float = 0.0, seed: int = 0
) -> str:
    """Return the text that a model writes after `ids`; the arguments are those of `generate`."""
    written = generate(model, tokenizer, ids, tokens, temperature, seed)
    return tokenizer.decode(written, skip_special_tokens=True).strip()


@dataclass
class ChatSession:
    """A chat with a model: `say` answers and remembers.

    Args:
        model: A bare causal language model, or a tuned one if there is no prompt.
        tokenizer: Its tokenizer.
        prompt: A compressed prompt; None chats without any.
        budget: When the chat exceeds this many tokens, fold all turns into the state; None never folds.
        folded: Virtual tokens per KV head of the folded turns; by default an eighth of their tokens, at least
            32.
        reader: Turns text into tokens; by default the prompt's reader.

    Example:
        With a model, its tokenizer and a text `guide`::

            prompt = attangent.compress(model, tokenizer, guide)
            chat = ChatSession(model, tokenizer, prompt, budget=1000)
            chat.say("Who is the mayor?")
    """

    model: Any
    tokenizer: Any
    prompt: CompressedPrompt | None = None
    budget: int | None = None
    folded: int | None = None
    reader: Reader | None = None
    folds: int = field(init=False, default=0)
    turns: int = field(init=False, default=0)
    history: Tensor = field(init=False)

    def __post_init__(self) -> None:
        if self.budget is not None:
            check_size("budget", self.budget, least=(self.folded or _FEWEST_FOLDED) + 1)
        self.history = torch.zeros(0, dtype=torch.long)
        if self.prompt is None:
            self.prompt = CompressedPrompt({}, 0, 0, "recall", (), fingerprint(self.tokenizer))
        if self.reader is None:
            self.reader = self.prompt.reader

    @classmethod
    def load(
        cls, model: Any, tokenizer: Any, folder: str | PathLike[str], budget: int | None = None
    ) -> "ChatSession":
        """Start a chat with the compressed prompt of a folder.

        Args:
            model: The bare model for which the prompt was compressed.
            tokenizer: Its tokenizer.
            folder: Folder that `attangent compress` wrote.
            budget: As in the class.

        Returns:
            The session.

        Raises:
            AttangentError: If the folder holds no compressed prompt for this model.
        """
        notes = read_notes(folder)
        reader = load_compressed(model, tokenizer, folder)
        states = dict(states_of(model, "default"))
        detach(model)
        prompt = CompressedPrompt(
            states, notes["prompt_tokens"], notes["size"], notes["method"], reader.roles, notes["tokenizer"]
        )
        return cls(model, tokenizer, prompt, budget)

    @property
    def tokens(self) -> int:
        """Return the number of tokens since the last fold."""
        return len(self.history)

    def say(self, text: str, tokens: int = ANSWER_TOKENS) -> str:
        """Answer by the most likely tokens.

        Args:
            text: The user's turn.
            tokens: Maximum number of tokens of the answer.

        Returns:
            The answer.
        """
        assert self.reader is not None
        ask = self.reader.later_question if self.turns else self.reader.question
        ids = torch.cat([self.history, ask(self.tokenizer, text)])
        answer = self._answer(ids, tokens)
        self.history = torch.cat([ids, answer])
        self.turns += 1
        if self.budget is not None and self.tokens > self.budget:
            self._fold()
        return self.tokenizer.decode(answer.tolist(), skip_special_tokens=True).strip()

    def _answer(self, ids: Tensor, tokens: int) -> Tensor:
        """Return the answer without the token that ends it."""
        assert self.prompt is not None
        if self.prompt.states:
            self.prompt.attach(self.model)
        try:
            answer = generate(self.model, self.tokenizer, ids, tokens)
        finally:
            if self.prompt.states:
                detach(self.model)
        # The template of the next turn writes the end of this one.
        ends = end_tokens(self.model, self.tokenizer)
        return answer[:-1] if len(answer) and answer[-1].item() in ends else answer

    def _fold(self) -> None:
        """Replace all turns by virtual tokens after those of the prompt."""
        assert self.prompt is not None
        piece = Piece(self.history, self.prompt.position_offset, self.prompt.states)
        size = self.folded or max(_FEWEST_FOLDED, len(self.history) // _FOLDED_TIMES)
        text = self.tokenizer.decode(self.history.tolist(), skip_special_tokens=True)
        # After turns of a chat, questions have the template's form: tokens are scored by that.
        templated = isinstance(self.reader, BareReader) or bool(self.prompt.roles)
        is_chat = templated and bool(getattr(self.tokenizer, "chat_template", None))
        turns = [{"role": "user", "content": text}, {"role": "assistant", "content": "."}]
        request = CompressionRequest(turns if is_chat else text, keep=0, size=size, calibration=[text])
        prompt = CompressionRun(self.model, self.tokenizer, request, piece=piece).fit(size)
        total = self.prompt.size + prompt.size
        self.prompt = replace(prompt, roles=self.prompt.roles, size=total, exact=False)
        self.history = self.history[:0]
        self.folds += 1
