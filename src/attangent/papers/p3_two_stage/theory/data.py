"""The prompts of P3, Section 3.1: tokens with an easy part P and a hard part Q."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attangent._core.checks import check_between, check_choice, check_positive, check_size
from attangent._core.errors import AttangentError
from attangent._core.random import generator

PROTOTYPE_LABELS = (1.0, -1.0, -1.0)
"""The labels of z, z + zeta, z - zeta."""
Frame = Literal["random", "axes"]


@dataclass(frozen=True, eq=False)
class PromptPart:
    """One part of n prompts as its virtual network sees it.

    Attributes:
        context: The tokens.
        labels: Their labels, times their counts if equal tokens are gathered.
        query: The last token.
        shown: Whether the prompt has this part.
        L: The prompt length.
    """

    context: Float[Tensor, "*runs n tokens d"]
    labels: Float[Tensor, "*runs n tokens"]
    query: Float[Tensor, "*runs n d"]
    shown: Float[Tensor, "*runs n"]
    L: int


@dataclass(frozen=True, eq=False)
class TwoStagePrompts:
    """n prompts of length L; the last token is the query and its label is the answer.

    Attributes:
        x1: The P parts; zeros in a prompt that shows only the Q part.
        kinds: Which of z, z + zeta, z - zeta each Q part is.
        y: The labels.
        shows_p: 1 for prompts with a P part, else 0.
        shows_q: 1 for prompts with a Q part, else 0.
        prototypes: z, z + zeta and z - zeta.
    """

    x1: Float[Tensor, "*runs n L d"]
    kinds: Int[Tensor, "*runs n L"]
    y: Float[Tensor, "*runs n L"]
    shows_p: Float[Tensor, "*runs n"]
    shows_q: Float[Tensor, "*runs n"]
    prototypes: Float[Tensor, "3 d"]

    @property
    def L(self) -> int:
        return self.y.shape[-1]

    @property
    def answers(self) -> Float[Tensor, "*runs n"]:
        """y_L."""
        return self.y[..., -1]

    @property
    def x2(self) -> Float[Tensor, "*runs n L d"]:
        """The Q parts."""
        return self.prototypes[self.kinds] * self.shows_q[..., None, None]

    @cached_property
    def counts(self) -> Float[Tensor, "*runs n 3"]:
        """How often each prototype occurs in the context."""
        return torch.stack([(self.kinds[..., :-1] == kind).sum(-1) for kind in range(3)], -1).double()

    @cached_property
    def p(self) -> PromptPart:
        return PromptPart(
            self.x1[..., :-1, :].contiguous(),
            self.y[..., :-1].contiguous(),
            self.x1[..., -1, :].contiguous(),
            self.shows_p,
            self.L,
        )

    @cached_property
    def q(self) -> PromptPart:
        """The Q part with equal tokens gathered: three tokens for every L."""
        return gathered_q(self.prototypes, self.counts, self.kinds[..., -1], self.shows_q, self.L)


@dataclass(frozen=True, eq=False)
class QPrompts:
    """Prompts known by their Q parts alone; the P network sees nothing and answers 0.

    Attributes:
        counts: How often each prototype occurs in the context.
        kinds: Which prototype is the query.
        prototypes: z, z + zeta and z - zeta.
        L: The prompt length.
    """

    counts: Float[Tensor, "*runs n 3"]
    kinds: Int[Tensor, "*runs n"]
    prototypes: Float[Tensor, "3 d"]
    L: int

    @property
    def answers(self) -> Float[Tensor, "*runs n"]:
        """y_L."""
        return torch.where(self.kinds == 0, 1.0, -1.0).double()

    @cached_property
    def q(self) -> PromptPart:
        return gathered_q(self.prototypes, self.counts, self.kinds, torch.ones_like(self.answers), self.L)

    @property
    def shows_p(self) -> Float[Tensor, "*runs n"]:
        return torch.zeros_like(self.answers)

    @property
    def shows_q(self) -> Float[Tensor, "*runs n"]:
        return self.q.shown

    @property
    def p(self) -> PromptPart:
        nothing = self.q.context[..., :0, :]
        query = torch.zeros_like(self.q.query)
        return PromptPart(nothing, self.q.labels[..., :0], query, self.shows_p, self.L)


def gathered_q(prototypes: Tensor, counts: Tensor, query: Tensor, shown: Tensor, L: int) -> PromptPart:
    """Return the Q part for counts (..., n, 3) of the prototypes and queries of kinds (..., n)."""
    context = prototypes * shown[..., None, None]
    labels = counts * counts.new_tensor(PROTOTYPE_LABELS)
    return PromptPart(context.contiguous(), labels, prototypes[query] * shown[..., None], shown, L)


@dataclass(frozen=True)
class TwoStageData:
    """The distribution of Section 3.1 in dimension d with prompts of length L.

    P part: e ~ N(0, I/d), turned to e sign(y <w*, e>), and x_1 = y gamma0 w* + e with gamma0 = 1/sqrt(d).
    Q part: x_2 = z for y = +1, and z + zeta or z - zeta with equal chance for y = -1, where |z| = u,
    |zeta| = r and <z, zeta> = 0.

    Args:
        d: The dimension of each part.
        L: The prompt length, query included.
        u: The norm of z.
        r: The norm of zeta.
        p: The probability that a label, the query's included, is +1.
        p_only: The share of prompts without a Q part.
        q_only: The share of prompts without a P part.
        frame: Whether w*, z, zeta are drawn from `seed` or lie along the first coordinate axes.
        seed: Seed of the directions.

    Example:
        >>> data = TwoStageData(d=16, L=33)
        >>> data.sample(5, seed=0).x1.shape
        torch.Size([5, 33, 16])
    """

    d: int
    L: int
    u: float = 2.0
    r: float = 1.0
    p: float = 0.5
    p_only: float = 0.0
    q_only: float = 0.0
    frame: Frame = "random"
    seed: int = 0

    def __post_init__(self) -> None:
        check_size("d", self.d, least=2)
        check_size("L", self.L, least=2)
        for name in ("u", "r"):
            check_positive(name, getattr(self, name))
        for name in ("p", "p_only", "q_only"):
            check_between(name, getattr(self, name), 0.0, 1.0)
        check_choice("frame", self.frame, get_args(Frame))
        if self.p_only + self.q_only > 1:
            raise AttangentError(f"p_only + q_only is {self.p_only + self.q_only}; expected at most 1")

    @property
    def margin(self) -> float:
        """gamma0 = 1/sqrt(d)."""
        return 1 / math.sqrt(self.d)

    @cached_property
    def w_star(self) -> Float[Tensor, " d"]:
        """The unit direction that separates the P parts."""
        return self._axes("P directions")[0]

    @cached_property
    def z(self) -> Float[Tensor, " d"]:
        return self.u * self._axes("Q directions")[0]

    @cached_property
    def zeta(self) -> Float[Tensor, " d"]:
        return self.r * self._axes("Q directions")[1]

    @cached_property
    def prototypes(self) -> Float[Tensor, "3 d"]:
        """z, z + zeta and z - zeta."""
        return torch.stack((self.z, self.z + self.zeta, self.z - self.zeta))

    @property
    def prototype_shares(self) -> tuple[float, float, float]:
        """The probability of each prototype: p, (1-p)/2, (1-p)/2."""
        return self.p, (1 - self.p) / 2, (1 - self.p) / 2

    def sample(self, n: int, *, runs: int | None = None, seed: int | torch.Generator = 0) -> TwoStagePrompts:
        """Draw n prompts, or n per run for `runs` independent runs."""
        rng = _as_generator(seed, "prompts")
        batch = _batch(n, runs)
        y, kinds = self._labels((*batch, self.L), rng)
        e = torch.randn(*batch, self.L, self.d, generator=rng, dtype=torch.float64) / math.sqrt(self.d)
        e *= torch.where((e @ self.w_star) * y < 0, -1.0, 1.0)[..., None]
        share = torch.rand(batch, generator=rng, dtype=torch.float64)
        shows_p = (share >= self.q_only).double()
        shows_q = (share < 1 - self.p_only).double()
        x1 = (e + self.margin * y[..., None] * self.w_star) * shows_p[..., None, None]
        return TwoStagePrompts(x1, kinds, y, shows_p, shows_q, self.prototypes)

    def sample_q(self, n: int, *, runs: int | None = None, seed: int | torch.Generator = 0) -> QPrompts:
        """Draw the Q parts of n prompts with equal tokens gathered, at a cost that does not grow with L."""
        rng = _as_generator(seed, "Q parts")
        batch = _batch(n, runs)
        tokens = torch.full(batch, float(self.L - 1), dtype=torch.float64)
        positive = torch.binomial(tokens, torch.full_like(tokens, self.p), generator=rng)
        plus = torch.binomial(tokens - positive, torch.full_like(tokens, 0.5), generator=rng)
        counts = torch.stack((positive, plus, tokens - positive - plus), -1)
        return QPrompts(counts, self._labels(batch, rng)[1], self.prototypes, self.L)

    def _labels(self, shape: tuple[int, ...], rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw labels of this shape and the kinds of the Q parts that belong to them."""
        y = torch.where(torch.rand(shape, generator=rng, dtype=torch.float64) < self.p, 1.0, -1.0).double()
        return y, torch.where(y > 0, 0, torch.randint(1, 3, shape, generator=rng))

    def _axes(self, stream: str) -> Tensor:
        if self.frame == "axes":
            return torch.eye(2, self.d, dtype=torch.float64)
        drawn = torch.randn(self.d, 2, generator=generator(self.seed, stream), dtype=torch.float64)
        return torch.linalg.qr(drawn).Q.T


def _as_generator(seed: int | torch.Generator, stream: str) -> torch.Generator:
    return seed if isinstance(seed, torch.Generator) else generator(seed, stream)


def _batch(n: int, runs: int | None) -> tuple[int, ...]:
    check_size("n", n)
    return (n,) if runs is None else (check_size("runs", runs), n)
