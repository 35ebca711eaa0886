"""Signal and noise of W and V: which is larger, and what stage 2 adds to the noise."""

import math

from attangent.audit import Conclusion, Failure, Finding, Hypothesis, Settings, claim
from attangent.papers.p3_two_stage.claims import proofs_of_patterns, proofs_of_stages
from attangent.papers.p3_two_stage.claims.first_stage import ASSUMED
from attangent.papers.p3_two_stage.claims.two_stage_setting import (
    WITHDRAWN,
    Assumption1,
    easy_pull,
    signal_norm,
)
from attangent.papers.p3_two_stage.theory.training import NoisySGD, train


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
    erratum=WITHDRAWN,
    place="Appendix E, proof of Lemma 7, the variance of Xi",
    title="The noise that stage 2 adds",
    quote="""sigma^2 = sum_j eta_2^2 (1 - eta_2 lambda)^(2(t_2 - t')) tau_zeta^2 = eta_2^2 tau_zeta^2 (1 -
        (1 - eta_2 lambda)^(2 t_2 - 1)) / (eta_2 lambda)""",
    quick={"steps": 50, "decay": 0.1},
    seeds=1,
    seconds=0.01,
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
        ),
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
    erratum=WITHDRAWN,
    place="Section 3.3, Signal-noise decomposition; used for ||W|| ~ ||W signal|| in Appendix H",
    title="The signal dominates the noise",
    quote="""By setting a relatively small variance tau_xi^2, the signal component always dominates the
        noise component""",
    quick={**ASSUMED, "dimensions": [8, 16, 32, 64], "power": 1.0, "N": 32, "runs": 2, "easy_constant": 1.0},
    full={"dimensions": [8, 16, 32, 64, 128], "runs": 10},
    seconds=0.3,
)
def signal_dominates(settings: Settings, seed: int) -> Finding:
    """Under Assumption 1, with tau_0 of its largest order, a small enough tau_xi makes the signal weights
    larger than the noise weights at t_1.
    """
    ratios = [signal_over_noise(settings, d, seed) for d in settings.dimensions]
    of_W = [ratio[0] for ratio in ratios]
    least = settings.dimensions[0]
    return Finding(
        hypotheses=(
            Hypothesis("tau_0 sqrt(log d), as in Assumption 1", "<=", 10.0, settings.tau_constant),
            Hypothesis("tau_xi", "<=", 1e-9, _quiet_stage(settings, least).xi_std),
        ),
        conclusions=(
            *(
                Conclusion(
                    f"|signal| / |noise| of {name} at t_1, d = {least}", ">=", 1.0, ratios[0][i], part=name
                )
                for i, name in enumerate("WV")
            ),
            Conclusion.of_trend(
                "exponent in d of |signal| / |noise| of W",
                ">=",
                0.0,
                settings.dimensions,
                of_W,
                claimed=False,
            ),
        ),
        numbers={
            f"|signal| / |noise| of W, d = {d}": r[0]
            for d, r in zip(settings.dimensions, ratios, strict=True)
        },
        remark="Measured with tau_xi = 0. The noise weights are then what decay leaves of the start, with a "
        "norm of tau_0 d / e at t_1, while the signal is of order sqrt(log d)/d.",
    )


def _quiet_stage(settings: Settings, d: int) -> NoisySGD:
    return Assumption1.of(settings, d).stage(settings.rate, noise=0.0)


def signal_over_noise(settings: Settings, d: int, seed: int) -> tuple[float, float]:
    """Return |signal| / |noise| of W and V at t_1 without fresh noise, smallest over runs."""
    scale = Assumption1.of(settings, d)
    model, prompts = scale.start(settings, seed)
    end = train(model, prompts, _quiet_stage(settings, d), seed=seed).ends[0]
    W, V = (
        (signal_norm(s) / signal_norm(n)).min().item()
        for s, n in zip(end.signal[:2], end.noise[:2], strict=True)
    )
    return W, V


@claim(
    "P3/signal-dominates-noise-repaired",
    nature="remark",
    plain="The signal of W dominates for tau_0 up to order sqrt(log d)/d^2.",
    sharp="sharp up to the factor e - 1: the ratio is e - 1 at the stated tau_0",
    erratum=WITHDRAWN,
    repairs="P3/signal-dominates-noise",
    place="ours",
    title="For which tau_0 the signal of W dominates",
    derivation="""The signal at t_1 is (1 - 1/e) mu^2/(8 lambda) (Theorem 2 as repaired), the noise is e^-1
        |W_0|, and |W_0| is tau_0 d up to a factor near 1. The ratio is (e - 1) mu^2/(8 lambda tau_0 d).""",
    quick={**ASSUMED, "power": 1.0, "N": 192, "runs": 2, "d": 16},
    sizes=({"d": 16}, {"d": 48}),
    seconds=0.2,
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
