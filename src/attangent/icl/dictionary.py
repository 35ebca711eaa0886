"""The dictionary of tokens with their representations, and the prompts drawn from it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from attangent._core.checks import check_choice, check_not_negative, check_size
from attangent._core.display import brief_fields
from attangent._core.errors import AttangentError
from attangent._core.memory import check_memory
from attangent._core.random import generator
from attangent.icl._inputs import as_matrix, as_tensor
from attangent.icl.tasks import IN_DOMAIN, Tasks

Representation = Callable[[Tensor], Any] | Tensor


@dataclass(frozen=True, eq=False)
class Prompts:
    """Labels y_k = lambda'(f(v_k) + eps_k) of all K tokens, a row for each prompt (Eq. 1)."""

    tasks: Tensor
    """(count, m): the lambda of each prompt."""
    labels: Tensor
    """(count, K): noisy labels; the first N are what the prompt shows."""
    clean: Tensor
    """(count, K): lambda'f(v_k), without noise."""
    N: int

    __repr__ = brief_fields

    @property
    def shown(self) -> Tensor:
        """(count, N): the labels of the prompt."""
        return self.labels[:, : self.N]


@dataclass(frozen=True, eq=False)
class Dictionary:
    """K tokens v_k in R^d with representations z_k = f(v_k) in R^m; a prompt shows the first N (Eq. 1-4).

    tokens (K, d) and features (K, m) have one row a token. The paper's matrices have one column a token:
    Z = features[:N]' and Zhat = features'.

    >>> tasks = Dictionary.random(K=24, d=4, m=4, N=12, tau=0.01, seed=0)
    >>> tasks.prompts(10, seed=1).shown.shape
    torch.Size([10, 12])
    """

    tokens: Tensor
    features: Tensor
    N: int
    tau: float
    apart: bool = False
    """Whether the representations were drawn without regard to the tokens: the tokens do not tell them."""

    __repr__ = brief_fields

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", as_matrix("tokens", self.tokens))
        object.__setattr__(self, "features", as_matrix("features", self.features))
        object.__setattr__(self, "tau", check_not_negative("tau", self.tau))
        if len(self.tokens) != len(self.features):
            raise AttangentError(
                f"there are {len(self.tokens)} tokens but {len(self.features)} features: a row for each token"
            )
        if check_size("N", self.N) > self.K:
            raise AttangentError(
                f"N is {self.N}, expected at most K={self.K}: a prompt shows the first N tokens"
            )

    @classmethod
    def random(
        cls,
        *,
        K: int,
        d: int,
        m: int,
        N: int,
        tau: float,
        tokens: Literal["unit", "gaussian"] = "unit",
        seed: int = 0,
        representation: Representation | Literal["linear", "independent"] = "linear",
    ) -> "Dictionary":
        """Random tokens: of norm 1 as the theory asks, or Gaussian as the paper's experiments draw them.

        representation: "linear", a random matrix times the token, entries of variance 1; a matrix (m, d); a
        function from tokens (K, d) to features (K, m); or "independent", Gaussian and drawn apart from the
        tokens, as the paper's experiments have it. A learner that sees the tokens alone cannot do ridge
        regression on the last.
        """
        for name, size in (("K", K), ("d", d), ("m", m)):
            check_size(name, size)
        check_memory("tokens and their features", K=K, d_and_m=d + m)
        check_memory("a linear representation", d=d, m=m)
        check_choice("tokens", tokens, ("unit", "gaussian"))
        v = torch.randn(K, d, generator=generator(seed, "icl tokens"), dtype=torch.float64)
        v = v / v.norm(dim=1, keepdim=True) if tokens == "unit" else v
        if not isinstance(representation, str):
            return cls.of(v, representation, N=N, tau=tau)
        if check_choice("representation", representation, ("linear", "independent")) == "linear":
            matrix = torch.randn(m, d, generator=generator(seed, "icl representation"), dtype=torch.float64)
            return cls.of(v, matrix / v.square().sum(dim=1).mean().sqrt(), N=N, tau=tau)
        z = torch.randn(K, m, generator=generator(seed, "icl features"), dtype=torch.float64)
        return cls(v, z, N, tau, apart=True)

    @classmethod
    def of(cls, tokens: Any, representation: Representation, *, N: int, tau: float) -> "Dictionary":
        """The dictionary of these tokens under a representation map, a function or a matrix (m, d)."""
        v = as_matrix("tokens", tokens)
        if callable(representation):
            features = as_tensor("features", representation(v))
        else:
            features = v @ as_matrix("representation", representation, columns=v.shape[1]).T
        return cls(v, features, N, tau)

    @property
    def K(self) -> int:
        return len(self.tokens)

    @property
    def d(self) -> int:
        return self.tokens.shape[1]

    @property
    def m(self) -> int:
        return self.features.shape[1]

    @property
    def ridge(self) -> float:
        """m tau, the ridge that training implies (Eq. 20)."""
        return self.m * self.tau

    @property
    def Z(self) -> Tensor:
        """(m, N): representations of the prompt's tokens (Eq. 12)."""
        return self.features[: self.N].T

    @property
    def Z_query(self) -> Tensor:
        """(m, K - N): representations of the tokens without labels (Eq. 19)."""
        return self.features[self.N :].T

    @cached_property
    def M(self) -> Tensor:
        """Z'Z + m tau I = E[y y'] over in-domain prompts, the metric of the loss (Eq. 36)."""
        return self.label_moment(IN_DOMAIN)

    @cached_property
    def Z_bar(self) -> Tensor:
        """(Z'Z + m tau I)^(1/2), symmetric (Eq. 12)."""
        values, vectors = torch.linalg.eigh(self.M)
        return vectors * values.clamp_min(0).sqrt() @ vectors.T

    @property
    def f_max(self) -> float:
        """The largest norm of a column of Z_bar (Eq. 12)."""
        return self.Z_bar.norm(dim=0).max().item()

    def label_moment(self, tasks: Tasks, tau: float | None = None) -> Tensor:
        """E[y y'] of a prompt's labels under these tasks and this noise (the dictionary's unless given)."""
        noise = (self.tau if tau is None else tau) * tasks.squared_norm(self.m)
        return self.Z.T @ tasks.second_moment(self.m) @ self.Z + noise * torch.eye(
            self.N, dtype=torch.float64
        )

    def with_noise(self, tau: float) -> "Dictionary":
        return replace(self, tau=tau)

    def with_prompt_length(self, N: int) -> "Dictionary":
        return replace(self, N=N)

    def prompts(self, count: int, tasks: Tasks = IN_DOMAIN, seed: int = 0) -> Prompts:
        """`count` prompts with tasks drawn from `tasks`."""
        return self.draw(check_size("count", count), tasks, generator(seed, "icl prompts"))

    def draw(self, count: int, tasks: Tasks, rng: torch.Generator) -> Prompts:
        """`count` prompts from a running generator.

        lambda'eps_k is drawn as |lambda| sqrt(tau) g_k, which has its distribution given lambda.
        """
        check_memory("prompts", count=count, m_and_K=self.m + self.K)
        vectors = tasks.draw(count, self.m, rng)
        clean = vectors @ self.features.T
        g = torch.randn(count, self.K, generator=rng, dtype=torch.float64)
        labels = clean + self.tau**0.5 * vectors.norm(dim=1, keepdim=True) * g
        return Prompts(vectors, labels, clean, self.N)
