"""Lemma 7: whether signs stay in the second stage; signal against noise in W and V."""

import math

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit import Conclusion, Failure, Finding, Hypothesis, Settings, claim
from attangent.papers.common.sizes import by_size, no_growth, ratios
from attangent.papers.p3_two_stage.claims import proofs_of_patterns, proofs_of_stages
from attangent.papers.p3_two_stage.claims.first_stage import ASSUMED, assumption_1
from attangent.papers.p3_two_stage.claims.two_stage_setting import Assumption1, easy_pull, signal_norm
from attangent.papers.p3_two_stage.theory.training import train


@claim(
    "P3/lemma-7",
    plain="""Printed: stage 2 changes few signs. True: it lasts so long that the noise of stage 1 is
        forgotten, and half of all signs change on average.""",
    failure=Failure(
        cause="P3/lemma-7",
        consequence="Lemma 7 falls; Theorems 3 and 4 use it",
        first_size="d = 2 for Equation 15 with constants 1; d = 3 for the whole lemma with K = 1/2",
        root="the decay of the old noise over stage 2 is left out",
    ),
    proof=proofs_of_patterns.lemma_7,
    place="Appendix E, Lemma 7, Equation 15 (with Corollaries 4 and 5)",
    title="Activation patterns are preserved in the second stage",
    quote="Since eta_2 << eta_1, ... This implies that additional noise in the second stage is small.",
    quick={
        **ASSUMED, "u": 0.4, "r": 0.04, "dimensions": [16, 32, 64, 128], "prompts": 4,
        "length_of_stage": 1.0,
    },
    full={"dimensions": [16, 32, 64, 128, 192], "prompts": 4},
    rests_on=("P3/lemma-6", "P3/proposition-5"),
)  # fmt: skip
def patterns_stay(settings: Settings, seed: int) -> Finding:
    """Over the t_2 steps of the second stage at most a constant times L sqrt(eta_2/eta_1) + sqrt(L log d) of
    the L signs of the noise weights' scores change (Equation 15). The whole lemma adds the eps_U of Lemma 6
    for the changes by the signal.
    """
    dimensions = settings.dimensions
    changed = [changed_shares(settings, d, seed).mean().item() for d in dimensions]
    bounds = [_share_bound(settings, d) for d in dimensions]
    shares = ratios(changed, bounds)
    of_whole = ratios(changed, (whole_share(settings, d) for d in dimensions))
    first_ratio = rate_ratio(settings, dimensions[0])
    left = log_kept(settings, dimensions[-1]) / math.log(10)
    sizes = (16, 256, 4096)
    changes = "the fraction of signs changed"
    full_bound = "the whole bound of the lemma, K = 1/2"
    return Finding(
        hypotheses=(
            *assumption_1(settings),
            Hypothesis("eta_2 / eta_1 at the smallest d", "<=", 0.1, first_ratio),
        ),
        conclusions=(
            no_growth(f"exponent in d of {changes} / bound", dimensions, shares, part="Equation 15"),
            no_growth(f"the same against {full_bound}", dimensions, of_whole, part="whole lemma"),
        ),
        numbers={
            **{f"1/2 / the whole bound, K = 1/2, d = {d}": 0.5 / whole_share(settings, d) for d in sizes},
            "share of signs changed at the largest d": changed[-1],
            "bound with constant 1 at the largest d": bounds[-1],
            "log10 of the fraction of W_(t1) left after stage 2 at the largest d": left,
        },
        remark="The noise that stage 2 adds is small compared with tau_0, but the noise of stage 1 has "
        "decayed by exp(-log^2(1/eps)/eps^2) in the meantime. Only fresh noise is left, and half of the "
        "signs change. The proof keeps the total variance at tau_0^2.",
    )


def rate_ratio(settings: Settings, d: int) -> float:
    """Return eta_2 / eta_1 = lambda^2 eps_(V,1)^2 r."""
    scale = Assumption1.of(settings, d)
    return scale.weight_decay**2 * scale.hard_epsilon**2 * scale.r


def _share_bound(settings: Settings, d: int) -> float:
    return math.sqrt(rate_ratio(settings, d)) + math.sqrt(math.log(d) / Assumption1.of(settings, d).L)


def whole_share(settings: Settings, d: int, K: float = 0.5) -> float:
    """Return the bound of the whole lemma over L: that of Equation 15 and eps_U / L."""
    scale = Assumption1.of(settings, d)
    by_signal = (K / (scale.weight_decay * scale.init_std)) ** (4 / 3) * scale.L ** (-1 / 3)
    return by_signal + _share_bound(settings, d)


def log_kept(settings: Settings, d: int) -> float:
    """Return log (1 - eta_2 lambda)^(t_2) for `length_of_stage` times t_2 = log^2(1/eps) / (eta_2 lambda
    eps^2).
    """
    scale = Assumption1.of(settings, d)
    eps = scale.hard_epsilon
    step = settings.rate * rate_ratio(settings, d) * scale.weight_decay
    return math.log1p(-step) * settings.length_of_stage * math.log(1 / eps) ** 2 / (step * eps**2)


def added_variance(settings: Settings, d: int) -> float:
    """Return the variance that stage 2 adds to a noise weight: eta_2^2 tau_xi^2 (1 - k^(2t)) / (1 - k^2)."""
    scale = Assumption1.of(settings, d)
    second = settings.rate * rate_ratio(settings, d)
    second_shrink = 1 - second * scale.weight_decay
    shrink = 1 - settings.rate * scale.weight_decay
    xi = scale.init_std**2 * (1 - shrink**2) / settings.rate**2
    return second**2 * xi * -math.expm1(2 * log_kept(settings, d)) / (1 - second_shrink**2)


def changed_shares(settings: Settings, d: int, seed: int) -> Tensor:
    """Return the fraction of signs of P tokens' scores that differ between t_1 and the end of stage 2, by
    prompt.

        U x_L at t_1 is Gaussian. By Proposition 5, at the end it is the rest of that vector plus fresh noise.
    """
    scale = Assumption1.of(settings, d)
    rng = generator(seed, f"lemma 7, d = {d}")
    shape = (settings.prompts, d)
    tokens = scale.data().sample(settings.prompts, seed=rng).p.context
    before, fresh = (torch.randn(*shape, generator=rng, dtype=torch.float64) for _ in range(2))
    before = scale.init_std * before
    after = math.exp(log_kept(settings, d)) * before + math.sqrt(added_variance(settings, d)) * fresh
    signs = [(tokens @ vector[..., None]) > 0 for vector in (before, after)]
    return (signs[0] != signs[1]).double().mean((-1, -2))


@claim(
    "P3/lemma-7-repaired",
    plain="The share of changed signs is arccos(rho)/pi, a half after the printed t_2.",
    sharp="sharp: equality in expectation",
    title="Signs over the second stage",
    derivation="""By Proposition 5 a score is k a + b with independent normal a, b of standard deviations
        tau_0 |x||x_L| and s |x||x_L|. Two normal variables of correlation rho differ in sign with
        probability arccos(rho)/pi. s^2 <= 2 tau_0^2 eta_2/eta_1, so tan(arccos rho) = s/(k tau_0) <= e^(t
        eta_2 lambda) sqrt(2 eta_2/eta_1) up to rounding of k.""",
    quick={**ASSUMED, "u": 0.4, "r": 0.04, "prompts": 400, "power": 1.5, "d": 16},
    sizes=({"d": 16}, {"d": 32}),
)
def signs_over_the_second_stage(settings: Settings, seed: int) -> Finding:
    """After t steps of stage 2 the expected fraction of changed signs is arccos(rho)/pi with rho = k tau_0 /
    sqrt(k^2 tau_0^2 + s^2), where k = (1 - eta_2 lambda)^t and s^2 is the variance that stage 2 adds. It is
    of order sqrt(eta_2/eta_1) for t <= 1/(eta_2 lambda), and 1/2 after the t_2 of the theorem.
    """
    scale = Assumption1.of(settings, settings.d)
    eps = scale.hard_epsilon
    one_decay = eps**2 / math.log(1 / eps) ** 2
    lengths = {"1/(eta_2 lambda) steps": one_decay, "t_2 steps": 1.0}
    lines = [
        line
        for name, length in lengths.items()
        for line in _share_lines(settings | {"length_of_stage": length}, name, seed)
    ]
    return Finding(conclusions=tuple(lines))


def _share_lines(settings: Settings, name: str, seed: int) -> tuple[Conclusion, Conclusion]:
    """Compare the measured share with arccos(rho)/pi, in standard errors over prompts and in relative
    size.
    """
    d = settings.d
    remaining = math.exp(log_kept(settings, d)) * Assumption1.of(settings, d).init_std
    expected = math.atan2(math.sqrt(added_variance(settings, d)), remaining) / math.pi
    shares = changed_shares(settings, d, seed)
    error = (shares.std() / math.sqrt(len(shares))).item()
    distance = abs(shares.mean().item() - expected)
    return (
        Conclusion(f"distance to arccos(rho)/pi after {name}, standard errors", "<=", 4.0, distance / error),
        Conclusion(f"the same, relative to arccos(rho)/pi, after {name}", "<=", 0.15, distance / expected),
    )


@claim(
    "P3/noise-variance",
    nature="misprint",
    plain="""The variance of the noise of stage 2 is a geometric sum that is added up wrongly; the bound
        on it is right.""",
    failure=Failure(
        cause="P3/noise-variance",
        consequence="used nowhere: the bound that follows is right",
        first_size="t_2 = 2",
        root="the ratio of a geometric sum is taken for its first power",
    ),
    proof=proofs_of_patterns.noise_variance,
    place="Appendix E, proof of Lemma 7, the variance of Xi",
    title="The noise that stage 2 adds",
    quote="""sigma^2 = sum_j eta_2^2 (1 - eta_2 lambda)^(2(t_2 - t')) tau_zeta^2 = eta_2^2 tau_zeta^2 (1 -
        (1 - eta_2 lambda)^(2 t_2 - 1)) / (eta_2 lambda)""",
    quick={"steps": 50, "decay": 0.1},
    seeds=1,
)
def noise_variance(settings: Settings, seed: int) -> Finding:
    """The sum of (1 - x)^(2j) over j < t is (1 - (1 - x)^(2t - 1))/x, with x = eta_2 lambda."""
    x = settings.decay
    total = sum((1 - x) ** (2 * j) for j in range(settings.steps))
    printed = (1 - (1 - x) ** (2 * settings.steps - 1)) / x
    return Finding(
        conclusions=(
            Conclusion("|sum / printed value - 1|", "<=", 1e-12, abs(total / printed - 1)),
            Conclusion("sum / the bound 1/x", "<=", 1.0, total * x, claimed=False),
        )
    )


@claim(
    "P3/signal-dominates-noise",
    nature="remark",
    plain="""Printed: a small tau_xi lets the signal dominate. True for tau_0 -> 0; with tau_0 at the
        largest order that Assumption 1 allows, the start alone exceeds the signal by a factor of order
        d^2/log d.""",
    failure=Failure(
        cause="P3/signal-dominates-noise",
        consequence="the identification of |W| with its signal in Appendix H falls for tau_0 of order "
        "1/sqrt(log d)",
        first_size="d = 2",
        root="the start, which is part of the noise weights, is left out",
    ),
    proof=proofs_of_stages.signal_and_noise,
    ours=("tau_0 at its largest order 1/sqrt(log d)",),
    place="Section 3.3, Signal-noise decomposition; used for ||W|| ~ ||W signal|| in Appendix H",
    title="The signal dominates the noise",
    quote="""By setting a relatively small variance tau_xi^2, the signal component always dominates the
        noise component""",
    quick={**ASSUMED, "dimensions": [8, 16, 32, 64], "power": 1.0, "N": 32, "runs": 2, "easy_constant": 1.0},
    full={"dimensions": [8, 16, 32, 64, 128], "runs": 10},
)
def signal_dominates(settings: Settings, seed: int) -> Finding:
    """Under Assumption 1, with tau_0 of its largest order, a small enough tau_xi makes the signal weights
    larger than the noise weights at t_1.
    """
    of_W, of_V = zip(*(signal_over_noise(settings, d, seed) for d in settings.dimensions), strict=True)
    least = settings.dimensions[0]
    ratio = "|signal| / |noise| of"
    return Finding(
        hypotheses=(
            Hypothesis("tau_0 sqrt(log d), as in Assumption 1", "<=", 10.0, settings.tau_constant),
            Hypothesis("tau_xi", "<=", 1e-9, NO_NOISE),
        ),
        conclusions=(
            Conclusion(f"{ratio} W at t_1, d = {least}", ">=", 1.0, of_W[0], part="W"),
            Conclusion(f"{ratio} V at t_1, d = {least}", ">=", 1.0, of_V[0], part="V"),
            Conclusion.of_trend(
                f"exponent in d of {ratio} W", ">=", 0.0, settings.dimensions, of_W, claimed=False
            ),
        ),
        numbers=by_size(f"{ratio} W, d = {{}}", settings.dimensions, of_W),
        remark="Measured with tau_xi = 0. The noise weights are then what decay leaves of the start, with a "
        "norm of tau_0 d / e at t_1, while the signal is of order sqrt(log d)/d.",
    )


NO_NOISE = 0.0
"""tau_xi of the runs without fresh noise."""


def signal_over_noise(settings: Settings, d: int, seed: int) -> tuple[float, float]:
    """Return |signal| / |noise| of W and V at t_1 without fresh noise, smallest over runs."""
    scale = Assumption1.of(settings, d)
    model, prompts = scale.start(settings, seed)
    end = train(model, prompts, scale.stage(settings.rate, noise=NO_NOISE), seed=seed).ends[0]
    W, V = ((signal_norm(end.signal[i]) / signal_norm(end.noise[i])).min().item() for i in (0, 1))
    return W, V


@claim(
    "P3/signal-dominates-noise-repaired",
    plain="The signal of W dominates for tau_0 up to order sqrt(log d)/d^2.",
    sharp="sharp up to the factor e - 1: the ratio is e - 1 at the stated tau_0",
    title="For which tau_0 the signal of W dominates",
    derivation="""The signal at t_1 is (1 - 1/e) mu^2/(8 lambda) (Theorem 2 as repaired), the noise is e^-1
        |W_0|, and |W_0| is tau_0 d up to a factor near 1. The ratio is (e - 1) mu^2/(8 lambda tau_0 d).""",
    quick={**ASSUMED, "power": 1.0, "N": 192, "runs": 2, "d": 16},
    sizes=({"d": 16}, {"d": 48}),
)
def signal_dominates_small_start(settings: Settings, seed: int) -> Finding:
    """Under Assumption 1 for lambda, without fresh noise and with many more prompts than d, the signal of W
    exceeds the noise at t_1 if tau_0 is at most mu^2/(8 lambda d), of order sqrt(log d)/d^2.
    """
    d = settings.d
    scale = Assumption1.of(settings, d)
    std = easy_pull(d) / (scale.weight_decay * d)
    W, _ = signal_over_noise(settings | {"tau_constant": std * scale.root_log}, d, seed)
    return Finding(
        hypotheses=(Hypothesis("prompts / d (N >> d)", ">=", 4.0, settings.N / d),),
        conclusions=(Conclusion("|signal| / |noise| of W at t_1", ">=", 1.0, W),),
        numbers={"tau_0": std, "expected ratio": math.e - 1},
    )
