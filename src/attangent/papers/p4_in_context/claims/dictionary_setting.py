"""The dictionary, the model and the measures that the claims of P4 share."""

import math
import warnings

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit.claims import Settings
from attangent.audit.finding import Hypothesis
from attangent.icl import Dictionary
from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention
from attangent.papers.p4_in_context.one_layer.heads import gradient, mixture, softmax_vectors
from attangent.papers.p4_in_context.one_layer.health import InitialisationWarning

EXACT = 1e-10
PAPER_SIZE = {"K": 200, "d": 100, "m": 20, "N": 30, "tau": 0.01}


def dictionary(settings: Settings, seed: int) -> Dictionary:
    """The dictionary of these settings: K, d, m, N, tau, and where given tokens."""
    return Dictionary.random(
        K=settings.K,
        d=settings.d,
        m=settings.m,
        N=settings.N,
        tau=settings.tau,
        tokens=settings.get("tokens", "unit"),
        seed=seed,
        representation="independent",
    )


def model(settings: Settings, seed: int, given: Dictionary | None = None) -> OneLayerAttention:
    """Attention on that dictionary with `heads` heads, untrained. A claim measures health itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InitialisationWarning)
        return OneLayerAttention(
            given or dictionary(settings, seed), settings.heads, settings.get("logit_std", 2.0), seed
        )


def unit_tokens(given: Dictionary) -> Hypothesis:
    return Hypothesis("largest |v_k|", "<=", 1 + 1e-12, given.tokens.norm(dim=1).max().item())


class Reparametrised:
    """l(Q, alpha) = L(Q, gamma alpha) of Lemma 6, its gradient and its gap."""

    def __init__(self, given: Dictionary, A: Tensor, gamma: float):
        self.dictionary, self.A, self.gamma = given, A, gamma

    def softmax(self, Q: Tensor) -> Tensor:
        return softmax_vectors(self.dictionary, Q)

    def delta(self, Q: Tensor, alpha: Tensor) -> Tensor:
        """(N, K): the columns delta_k of Eq. 33, with Z'z_k where z_k is printed."""
        return mixture(self.softmax(Q), self.gamma * alpha) - self.A

    def gap(self, Q: Tensor, alpha: Tensor) -> float:
        D = self.delta(Q, alpha)
        return ((D * (self.dictionary.M @ D)).sum() / (2 * self.dictionary.K)).item()

    def gradient(self, Q: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
        G = self.dictionary.M @ self.delta(Q, alpha)
        dQ, dw = gradient(self.dictionary, self.softmax(Q), self.gamma * alpha, G)
        return dQ, self.gamma * dw


def draw(shape: tuple[int, ...], seed: int, stream: str) -> Tensor:
    """Standard normal numbers of a named stream."""
    return torch.randn(*shape, generator=generator(seed, stream), dtype=torch.float64)


def signs(shape: tuple[int, ...], seed: int, stream: str) -> Tensor:
    return draw(shape, seed, stream).sign()


def joint_norm(*parts: Tensor) -> float:
    """The norm of all parts as one vector."""
    return math.sqrt(sum(part.square().sum().item() for part in parts))


def relative(a: Tensor, b: Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()
