"""Dictionary, model and measures that the claims of P4 share."""

import math
import warnings

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit import Conclusion, Figure, Hypothesis, Series, Settings
from attangent.icl import Dictionary
from attangent.papers.common.figures import plot
from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention
from attangent.papers.p4_in_context.one_layer.certificate import InitialisationWarning
from attangent.papers.p4_in_context.one_layer.training import gradient, mixture, softmax_vectors

EXACT = 1e-10
PAPER_SIZE = {"K": 200, "d": 100, "m": 20, "N": 30, "tau": 0.01}


def draw_dictionary(settings: Settings, seed: int) -> Dictionary:
    """Draw the dictionary that the settings describe: K, d, m, N, tau, and tokens if set."""
    sizes = {name: settings[name] for name in PAPER_SIZE}
    tokens = settings.get("tokens", "unit")
    return Dictionary.random(**sizes, tokens=tokens, seed=seed, representation="independent")


def scaled(dictionary: Dictionary, factor: float, tau: float | None = None) -> Dictionary:
    """Return the dictionary with features multiplied by `factor`, and with another tau if one is given."""
    tau = dictionary.tau if tau is None else tau
    return Dictionary(dictionary.tokens, factor * dictionary.features, dictionary.N, tau)


def model(settings: Settings, seed: int, dictionary: Dictionary | None = None) -> OneLayerAttention:
    """Return untrained attention with `heads` heads; claims measure its health themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InitialisationWarning)
        drawn = dictionary or draw_dictionary(settings, seed)
        return OneLayerAttention(drawn, settings.heads, settings.get("logit_std", 2.0), seed)


def unit_tokens(dictionary: Dictionary) -> Hypothesis:
    return Hypothesis("largest |v_k|", "<=", 1 + 1e-12, dictionary.tokens.norm(dim=1).max().item())


def ridge_gram(Z: Tensor, alpha: float) -> Tensor:
    """Return alpha I + Z Z' (m, m)."""
    return alpha * torch.eye(len(Z), dtype=torch.float64) + Z @ Z.T


class Reparametrised:
    """l(Q, alpha) = L(Q, gamma alpha) of Lemma 6, its gradient and its gap."""

    def __init__(self, dictionary: Dictionary, A: Tensor, gamma: float):
        self.dictionary = dictionary
        self.A = A
        self.gamma = gamma

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
    """Draw standard normal numbers from a named random stream."""
    return torch.randn(*shape, generator=generator(seed, stream), dtype=torch.float64)


def joint_norm(*parts: Tensor) -> float:
    """Return the norm of all parts as one vector."""
    return math.sqrt(sum(part.square().sum().item() for part in parts))


def relative(a: Tensor, b: Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()


def fall(losses: Tensor) -> float:
    """Return the last loss divided by the first."""
    return (losses[-1] / losses[0]).item()


def fall_lines(losses: dict[str, Tensor]) -> list[Conclusion]:
    """Return one conclusion per loss: it ends below its start."""
    return [
        Conclusion(f"{name} at the end / at the start", "<=", 1.0, fall(values))
        for name, values in losses.items()
    ]


def alike_lines(
    name: str, losses: dict[str, Tensor], least_correlation: float, largest_fall: float
) -> tuple[Conclusion, ...]:
    """Conclude, with our thresholds, that the out-of-domain loss follows `name` and all three fall far."""
    a, b = (losses[of].double().log() for of in ("out-of-domain loss", name))
    correlation = torch.corrcoef(torch.stack([a, b]))[0, 1].item()
    follows = f"correlation of log out-of-domain with log {name.removesuffix(' loss')}"
    least_fallen = max(map(fall, losses.values()))
    return (
        Conclusion(f"{follows}, positive", ">=", 0.0, correlation),
        Conclusion(follows, ">=", least_correlation, correlation, threshold="ours"),
        Conclusion("largest of the three falls", "<=", largest_fall, least_fallen, threshold="ours"),
    )


def curves_figure(title: str, steps: Tensor, curves: dict[str, Tensor]) -> Figure:
    series = tuple(Series.of(name, steps, losses) for name, losses in curves.items())
    return plot(title, ("step", "loss"), *series, log="y")
