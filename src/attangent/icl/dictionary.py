"""A dictionary of tokens with representations, the tasks on it, and the prompts drawn from both."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from attangent._core.arrays import as_double, as_matrix
from attangent._core.checks import check_choice, check_memory, check_not_negative, check_size
from attangent._core.display import brief_fields
from attangent._core.errors import AttangentError
from attangent._core.random import generator

Representation = Callable[[Tensor], Any] | Tensor


@dataclass(frozen=True)
class Tasks:
    """lambda = mean 1_m + std xi with independent entries xi of mean 0 and variance 1.

    Assumption 1 of P4 requires mean 0 and std 1 and leaves the distribution free.

    Attributes:
        shape: Distribution of xi: `gaussian` or `rademacher` (random signs).
        mean: Mean of every entry of lambda.
        std: Standard deviation of every entry of lambda.

    Raises:
        AttangentError: If the shape is unknown or std is negative.

    Example:
        >>> Tasks(mean=1.0, std=2.0).squared_norm(m=3)
        15.0
    """

    shape: Literal["gaussian", "rademacher"] = "gaussian"
    mean: float = 0.0
    std: float = 1.0

    def __post_init__(self) -> None:
        check_choice("shape", self.shape, ("gaussian", "rademacher"))
        check_not_negative("std", self.std)

    def draw(self, count: int, m: int, rng: torch.Generator) -> Float[Tensor, "count m"]:
        """Draw task vectors.

        Args:
            count: Number of vectors.
            m: Dimension of a vector.
            rng: Generator to draw from.

        Returns:
            One vector per row (count, m).
        """
        xi = torch.randn(count, m, generator=rng, dtype=torch.float64)
        return self.mean + self.std * (xi if self.shape == "gaussian" else xi.sign())

    def second_moment(self, m: int) -> Float[Tensor, "m m"]:
        """Compute E[lambda lambda'] = std^2 I + mean^2 1 1'.

        Args:
            m: Dimension of a vector.

        Returns:
            The moment (m, m).
        """
        ones = torch.ones(check_size("m", m), dtype=torch.float64)
        return self.std**2 * torch.diag(ones) + self.mean**2 * torch.outer(ones, ones)

    def squared_norm(self, m: int) -> float:
        """Compute E|lambda|^2; times tau it is the variance of a label's noise.

        Args:
            m: Dimension of a vector.

        Returns:
            m (std^2 + mean^2).
        """
        return m * (self.std**2 + self.mean**2)


IN_DOMAIN = Tasks()
OUT_OF_DOMAIN = Tasks(mean=1.0, std=2.0)
"""The shifted tasks N(1, 4 I) of the paper's experiments (Section 4)."""


@dataclass(frozen=True, eq=False)
class Prompts:
    """Labels y_k = lambda'(f(v_k) + eps_k) of all K tokens, one row per prompt (Eq. 1).

    Attributes:
        tasks: The lambda of each prompt (count, m).
        labels: Noisy labels (count, K); a prompt shows the first N.
        clean: lambda'f(v_k), labels without noise (count, K).
        N: Number of labels in a prompt.

    Example:
        >>> prompts = Dictionary.random(K=6, d=4, m=2, N=4, tau=0.1).prompts(3)
        >>> prompts.labels.shape, prompts.shown.shape
        (torch.Size([3, 6]), torch.Size([3, 4]))
    """

    tasks: Float[Tensor, "count m"]
    labels: Float[Tensor, "count K"]
    clean: Float[Tensor, "count K"]
    N: int

    __repr__ = brief_fields

    @property
    def shown(self) -> Float[Tensor, "count N"]:
        """The labels in the prompts (count, N)."""
        return self.labels[:, : self.N]


@dataclass(frozen=True, eq=False)
class Dictionary:
    """K tokens v_k in R^d with representations z_k = f(v_k) in R^m; a prompt shows the first N (Eq. 1-4).

    The paper's matrices have one column per token: Z = features[:N]' and Zhat = features'.

    Attributes:
        tokens: Tokens (K, d).
        features: Representations (K, m).
        N: Number of tokens in a prompt.
        tau: Variance of the noise eps per coordinate.
        apart: Whether the representations were drawn independently of the tokens, which then do not
            determine them.

    Raises:
        AttangentError: If tokens and features differ in number, or N exceeds K.

    Example:
        >>> dictionary = Dictionary.random(K=24, d=4, m=4, N=12, tau=0.01, seed=0)
        >>> dictionary.prompts(10, seed=1).shown.shape
        torch.Size([10, 12])
    """

    tokens: Tensor
    features: Tensor
    N: int
    tau: float
    apart: bool = False

    __repr__ = brief_fields

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", as_matrix("tokens", self.tokens))
        object.__setattr__(self, "features", as_matrix("features", self.features))
        object.__setattr__(self, "tau", check_not_negative("tau", self.tau))
        if len(self.tokens) != len(self.features):
            raise AttangentError(
                f"there are {len(self.tokens)} tokens but {len(self.features)} features, expected as many"
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
        """Draw a dictionary with random tokens.

        Args:
            K: Number of tokens.
            d: Dimension of a token.
            m: Dimension of a representation.
            N: Number of tokens in a prompt.
            tau: Variance of the noise.
            tokens: `unit` (norm 1, as in the theory) or `gaussian` (as in the paper's experiments).
            seed: Seed of the draw.
            representation: `linear` (a random matrix times the token, entries of variance 1), a matrix
                (m, d), a function from tokens (K, d) to features (K, m), or `independent` (Gaussian and
                independent of the tokens, as in the paper's experiments). A learner that sees only tokens
                cannot do ridge regression on `independent` features.

        Returns:
            The dictionary.

        Raises:
            AttangentError: If a size is below 1 or an option is unknown.
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
        """Build the dictionary of given tokens under a representation map.

        Args:
            tokens: Tokens (K, d).
            representation: A function from tokens (K, d) to features (K, m), or a matrix (m, d).
            N: Number of tokens in a prompt.
            tau: Variance of the noise.

        Returns:
            The dictionary.
        """
        v = as_matrix("tokens", tokens)
        if callable(representation):
            features = as_double("features", representation(v))
        else:
            features = v @ as_matrix("representation", representation, columns=v.shape[1]).T
        return cls(v, features, N, tau)

    @property
    def K(self) -> int:
        """Number of tokens."""
        return len(self.tokens)

    @property
    def d(self) -> int:
        """Dimension of a token."""
        return self.tokens.shape[1]

    @property
    def m(self) -> int:
        """Dimension of a representation."""
        return self.features.shape[1]

    @property
    def ridge(self) -> float:
        """m tau, the ridge that training implies (Eq. 20)."""
        return self.m * self.tau

    @property
    def Z(self) -> Float[Tensor, "m N"]:
        """Representations of the prompt's tokens (m, N) (Eq. 12)."""
        return self.features[: self.N].T

    @property
    def Z_query(self) -> Float[Tensor, "m queries"]:
        """Representations of the tokens without labels (m, K - N) (Eq. 19)."""
        return self.features[self.N :].T

    @cached_property
    def M(self) -> Float[Tensor, "N N"]:
        """Z'Z + m tau I = E[y y'] over in-domain prompts, the metric of the loss (Eq. 36)."""
        return self.label_moment(IN_DOMAIN)

    @cached_property
    def Z_bar(self) -> Float[Tensor, "N N"]:
        """(Z'Z + m tau I)^(1/2), symmetric (Eq. 12)."""
        values, vectors = torch.linalg.eigh(self.M)
        return vectors * values.clamp_min(0).sqrt() @ vectors.T

    @property
    def f_max(self) -> float:
        """The largest norm of a column of Z_bar (Eq. 12)."""
        return self.Z_bar.norm(dim=0).max().item()

    def label_moment(self, tasks: Tasks, tau: float | None = None) -> Float[Tensor, "N N"]:
        """Compute E[y y'] of a prompt's labels.

        Args:
            tasks: Distribution of the tasks.
            tau: Variance of the noise; by default that of the dictionary.

        Returns:
            The moment (N, N).
        """
        noise = (self.tau if tau is None else tau) * tasks.squared_norm(self.m)
        return self.Z.T @ tasks.second_moment(self.m) @ self.Z + noise * torch.eye(
            self.N, dtype=torch.float64
        )

    def with_noise(self, tau: float) -> "Dictionary":
        """Return the dictionary with another noise.

        Args:
            tau: Variance of the noise.

        Returns:
            A new dictionary.
        """
        return replace(self, tau=tau)

    def with_prompt_length(self, N: int) -> "Dictionary":
        """Return the dictionary with another length of prompts.

        Args:
            N: Number of tokens in a prompt.

        Returns:
            A new dictionary.
        """
        return replace(self, N=N)

    def prompts(self, count: int, tasks: Tasks = IN_DOMAIN, seed: int = 0) -> Prompts:
        """Draw prompts.

        Args:
            count: Number of prompts.
            tasks: Distribution of the tasks.
            seed: Seed of the draw.

        Returns:
            The prompts.
        """
        return self.draw(check_size("count", count), tasks, generator(seed, "icl prompts"))

    def draw(self, count: int, tasks: Tasks, rng: torch.Generator) -> Prompts:
        """Draw prompts from a running generator.

        Args:
            count: Number of prompts.
            tasks: Distribution of the tasks.
            rng: Generator to draw from.

        Returns:
            The prompts.
        """
        check_memory("prompts", count=count, m_and_K=self.m + self.K)
        vectors = tasks.draw(count, self.m, rng)
        clean = vectors @ self.features.T
        # lambda'eps_k needs no vector eps_k: given lambda it has the distribution of |lambda| sqrt(tau) g_k.
        g = torch.randn(count, self.K, generator=rng, dtype=torch.float64)
        labels = clean + self.tau**0.5 * vectors.norm(dim=1, keepdim=True) * g
        return Prompts(vectors, labels, clean, self.N)


def as_labels(value: Any, N: int) -> Tensor:
    """Convert `value` to float64 labels whose last axis runs over the N tokens of a prompt."""
    tensor = as_double("labels", value)
    if tensor.ndim == 0 or tensor.shape[-1] != N:
        raise AttangentError(
            f"labels has shape {tuple(tensor.shape)}, expected (..., {N}): one label per token; "
            f"cut longer ones with labels[..., :{N}]"
        )
    return tensor
