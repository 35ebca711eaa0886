"""Choose the next token of a row, and say how likely it was."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attangent._core.random import generator


@dataclass(frozen=True)
class TokenChance:
    """A token and its log-probability.

    Attributes:
        token: The token.
        logprob: Logarithm of its probability, before temperature and top_p.
        top: The most likely tokens with theirs, best first.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


class Sampler:
    """Draws the tokens of one text from its own stream, whatever else is in the batch.

    Args:
        temperature: 0 takes the most likely token.
        top_p: Draw from the smallest set of tokens with this probability.
        seed: Seed of the draws.
        choice: Number of the answer; every answer to a request has its own stream.
    """

    def __init__(self, temperature: float, top_p: float, seed: int, choice: int = 0):
        self.temperature = temperature
        self.top_p = top_p
        self._draws = generator(seed, f"answer {choice}")

    def next(self, logits: Float[Tensor, " vocabulary"]) -> int:
        """Return the next token."""
        if self.temperature == 0:
            return int(logits.argmax())
        chances = (logits.double() / self.temperature).softmax(dim=-1)
        chances, tokens = chances.sort(descending=True, stable=True)
        total = chances.cumsum(dim=-1)
        # the first token stays, and every other one whose predecessors have less than top_p
        count = max(1, int((total - chances < self.top_p).sum()))
        drawn = torch.rand((), generator=self._draws, dtype=torch.float64) * total[count - 1]
        return int(tokens[min(int(torch.searchsorted(total, drawn, right=True)), count - 1)])


def chance_of(logits: Float[Tensor, " vocabulary"], token: int, most: int) -> TokenChance:
    """Return the log-probability of a token, and the `most` most likely ones."""
    logprobs = logits.float().log_softmax(dim=-1)
    values, tokens = logprobs.topk(most)
    return TokenChance(
        token, float(logprobs[token]), tuple(zip(tokens.tolist(), values.tolist(), strict=True))
    )
