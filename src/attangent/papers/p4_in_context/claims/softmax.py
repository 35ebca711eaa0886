"""Lemmas 1, 2 and 4: the softmax's derivative, its Lipschitz constant, and the expected squared error."""

from itertools import product

import torch
from torch import Tensor
from torch.func import jacrev

from attangent._core.random import generator
from attangent.audit import Conclusion, Figure, Finding, Hypothesis, Series, Settings, claim
from attangent.papers.common.figures import plot
from attangent.papers.p4_in_context.claims import proofs
from attangent.papers.p4_in_context.claims.dictionary_setting import (
    EXACT,
    draw,
    draw_dictionary,
    model,
    relative,
)
from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention

_SIZES = {"K": 6, "d": 4, "m": 3, "N": 5, "tau": 0.1, "heads": 2}


@claim(
    "P4/lemma-1",
    plain="The gradient of the softmax is as printed.",
    place="Appendix A.2, Lemma 1",
    title="Gradient of the softmax in Q",
    quick=_SIZES,
    full={"K": 20, "d": 10, "N": 12},
)
def softmax_gradient(settings: Settings, seed: int) -> Finding:
    """The entry s_jk of softmax(V'Qv_k) has the gradient s_jk sum_i s_ik (v_j - v_i) v_k' in Q."""
    m = model(settings, seed)
    entries = list(product(range(settings.heads), range(settings.K)))
    errors = [relative(_printed(m, h, k), _automatic(m, h, k)) for h, k in entries]
    return Finding(
        conclusions=(Conclusion("largest relative distance to autograd", "<=", EXACT, max(errors)),),
        numbers={"heads and tokens": len(errors)},
    )


def _automatic(m: OneLayerAttention, h: int, k: int) -> Tensor:
    """(N, d, d) by automatic differentiation."""
    tokens = m.dictionary.tokens
    V = tokens[: m.dictionary.N].T
    return jacrev(lambda Q: torch.softmax(V.T @ Q @ tokens[k], dim=0))(m.Q[h])


def _printed(m: OneLayerAttention, h: int, k: int) -> Tensor:
    """(N, d, d) by Eq. 29; sum_i s_i (v_j - v_i) = v_j - sum_i s_i v_i."""
    v = m.dictionary.tokens[: m.dictionary.N]
    s = m.attention()[h, :, k]
    return s[:, None, None] * (v - s @ v)[:, :, None] * m.dictionary.tokens[k]


@claim(
    "P4/lemma-2",
    plain="The Lipschitz constant 2 holds; 1 would do.",
    place="Appendix A.2, Lemma 2",
    title="The softmax is Lipschitz from the maximum norm to the 1-norm",
    quote="||softmax(a) - softmax(b)||_1 <= 2 ||a - b||_inf",
    quick={"lengths": [2, 5, 30], "pairs": 2000, "constant": 2.0},
    full={"pairs": 100_000},
)
def softmax_lipschitz(settings: Settings, seed: int) -> Finding:
    """|softmax(a) - softmax(b)|_1 <= 2 |a - b|_max for all vectors a, b."""
    random = max(_random_ratio(length, settings.pairs, seed) for length in settings.lengths)
    worst = max(_worst_ratio(length) for length in settings.lengths)
    largest = max(random, worst)
    return Finding(
        conclusions=(
            Conclusion("largest |difference|_1 / |difference|_max", "<=", settings.constant, largest),
            Conclusion("the same, against the constant 1", "<=", 1 + 1e-9, largest, claimed=False),
        ),
        numbers={"largest over random pairs": random, "largest over pairs built to be bad": worst},
        remark="The constant 1 does and is sharp: with half of the mass on one entry, which moves by t while "
        "the others move by -t, the 1-norm is tanh(t).",
    )


def _random_ratio(length: int, pairs: int, seed: int) -> float:
    a = 2 * draw((pairs, length), seed, f"softmax a {length}")
    distances = torch.logspace(-4, 1, pairs, dtype=torch.float64)[:, None]
    return _ratios(a, a + distances * draw((pairs, length), seed, f"softmax b {length}")).max().item()


def _worst_ratio(length: int) -> float:
    """Half of the mass on one entry, which moves up while the others move down."""
    a = torch.zeros(length, dtype=torch.float64)
    a[0] = torch.tensor(float(length - 1)).log()
    step = -torch.ones(length, dtype=torch.float64)
    step[0] = 1.0
    return _ratios(a[None], (a + 1e-4 * step)[None]).max().item()


def _ratios(a: Tensor, b: Tensor) -> Tensor:
    difference = torch.softmax(a, dim=1) - torch.softmax(b, dim=1)
    return difference.abs().sum(dim=1) / (a - b).abs().amax(dim=1)


@claim(
    "P4/lemma-4",
    plain="Averaging over fresh noise is a ridge, as printed.",
    place="Appendix A.2, Lemma 4",
    title="Averaging over the noise of a label is a ridge",
    quote="Note that (24) is equivalent to the following ridge regression problem",
    quick={"K": 6, "d": 4, "m": 3, "N": 5, "tau": 0.3, "draws": 40_000, "drawn_tau": 0.3},
    full={"draws": 1_000_000},
)
def noise_is_a_ridge(settings: Settings, seed: int) -> Finding:
    """With fresh noise eps_i of covariance tau I, the expected mean of (y_i - lambda'(f(v_i) + eps_i))^2/2 is
    the mean of (y_i - lambda'f(v_i))^2/2 plus (tau/2) |lambda|^2.
    """
    dictionary = draw_dictionary(settings, seed)
    y = dictionary.prompts(1, seed=seed).shown[0]
    candidate = draw((dictionary.m,), seed, "candidate lambda")
    sample = _errors_with_noise(dictionary.Z, y, candidate, settings, seed)
    misfit = (y - candidate @ dictionary.Z).square().mean() / 2
    printed = (misfit + settings.tau / 2 * candidate.square().sum()).item()
    error = (sample.std() / len(sample) ** 0.5).item()
    distance = abs(sample.mean().item() - printed) / error
    return Finding(
        hypotheses=(Hypothesis("tau of the noise", "==", settings.tau, settings.drawn_tau),),
        conclusions=(Conclusion("distance to the sample mean, standard errors", "<=", 4.0, distance),),
        numbers={"printed": printed, "sample mean": sample.mean().item(), "standard error": error},
        figures=(_running_mean(sample, printed),),
    )


def _errors_with_noise(Z: Tensor, y: Tensor, candidate: Tensor, settings: Settings, seed: int) -> Tensor:
    rng = generator(seed, "fresh noise")
    eps = torch.randn(settings.draws, *Z.shape, generator=rng, dtype=torch.float64)
    noisy = torch.einsum("m,smn->sn", candidate, Z + settings.drawn_tau**0.5 * eps)
    return (y - noisy).square().mean(dim=1) / 2


def _running_mean(sample: Tensor, printed: float) -> Figure:
    at = torch.logspace(1, torch.log10(torch.tensor(float(len(sample)))), 60).long().clamp(1, len(sample))
    means = sample.cumsum(0)[at - 1] / at
    return plot(
        "Mean over draws of the noise",
        ("draws", "expected squared error"),
        Series.of("sample mean", at, means),
        Series.of("Lemma 4", at, [printed] * len(at), "bound"),
        log="x",
    )


@claim(
    "P4/lemma-3",
    nature="quotation",
    plain="The square of a sum is at most l times the sum of squares, as quoted.",
    proof=proofs.young,
    place="Appendix A.2, Lemma 3",
    title="The square of a sum",
    quote="||sum_{i=1}^l x_i||_2^2 <= l sum_{i=1}^l ||x_i||_2^2",
    quick={"counts": [2, 5, 20], "p": 6, "draws": 500, "factor": 1.0},
)
def square_of_a_sum(settings: Settings, seed: int) -> Finding:
    """|x_1 + ... + x_l|^2 <= l (|x_1|^2 + ... + |x_l|^2)."""
    worst = 0.0
    for count in settings.counts:
        x = draw((settings.draws, count, settings.p), seed, f"vectors {count}")
        x[0] = x[0, :1]  # equal vectors attain the bound
        right = settings.factor * count * x.square().sum((1, 2))
        worst = max(worst, (x.sum(1).square().sum(1) / right).max().item())
    return Finding(
        conclusions=(Conclusion("largest left-hand side / right-hand side", "<=", 1 + 1e-12, worst),)
    )


@claim(
    "P4/equation-46",
    nature="proof step",
    plain="A change of Q moves the attention as little as printed.",
    place="Appendix B, Eq. (46), with Lemma 2",
    title="How far a change of Q moves b",
    quote="|b_k^h(t) - b_k^h(0)|_2 <= 2 |Zbar|_2 |Q_h(t) - Q_h(0)|_F",
    rests_on=("P4/lemma-2",),
    quick={**_SIZES, "scales": [1e-3, 0.1, 1.0, 10.0], "draws": 20, "constant": 2.0},
    full={"K": 20, "d": 10, "N": 12, "draws": 200},
)
def moved_attention(settings: Settings, seed: int) -> Finding:
    """For tokens of norm 1, |Zbar (s(Q') - s(Q))| <= 2 |Zbar| |Q' - Q|_F with s = softmax(V'Qv_k)."""
    m = model(settings, seed)
    tokens = m.dictionary.tokens
    prompt = tokens[: m.dictionary.N]
    rng = generator(seed, "moves")
    start = torch.softmax(prompt @ m.Q[0] @ tokens.T, 0)
    ratios = []
    for scale in settings.scales:
        moves = scale * torch.randn(settings.draws, *m.Q[0].shape, generator=rng, dtype=torch.float64)
        change = torch.softmax(prompt @ (m.Q[0] + moves) @ tokens.T, 1) - start
        ratios.append((change.norm(dim=1).amax(1) / moves.norm(dim=(1, 2))).max().item())
    name = "|s(Q') - s(Q)| / (2 |Q' - Q|), moves of size"
    return Finding(
        hypotheses=(Hypothesis("largest |v|", "<=", 1 + 1e-12, tokens.norm(dim=1).max().item()),),
        conclusions=tuple(
            Conclusion(f"{name} {scale:g}", "<=", 1.0, ratio / settings.constant)
            for scale, ratio in zip(settings.scales, ratios, strict=True)
        ),
        remark="With |Zbar| on both sides the bound is that of the softmax itself.",
    )
