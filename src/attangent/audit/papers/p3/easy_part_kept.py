"""Theorem 4: whether the easy part is preserved in the second stage."""

import math

from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Finding, Hypothesis
from attangent.audit.papers.p3.two_stage_setting import Assumption1, signal_norm
from attangent.audit.registry import claim
from attangent.stages import ReluAttention
from attangent.stages.theory.training import ConstantRate, Course, NoisySGD, train


@claim(
    "P3/theorem-4",
    place="Section 4.2, Theorem 4 (Appendix G.2)",
    title="Stage 2: the easy part is preserved",
    statement="""Over the second stage, (d.1) the signal weights of W move by at most eps^2 / (log^2(1/eps)
        sqrt(log d)) and (d.2) K1 changes by at most as much, with eps = eps_(V,1) and up to constants.""",
    quick={
        "d": 16,
        "lambda_constant": 1.0,
        "tau_constant": 1.0,
        "power": 2.0,
        "u": 0.4,
        "r": 0.1,
        "N": 64,
        "rate": 0.1,
        "second_rate": 0.05,
        "decay_times": 4.0,
        "runs": 5,
        "noise": 1.0,
    },
    full={"decay_times": 300.0, "N": 256},
    seeds=1,
    seconds=0.7,
)
def easy_part_is_preserved(settings: Settings, seed: int) -> Finding:
    scale = Assumption1.of(settings, settings.d)
    first, last = _both_stages(settings, scale, seed).ends
    moved = signal_norm(last.signal.W - first.signal.W)
    changed = (last.losses.K1 - first.losses.K1).abs()
    eps = scale.epsilon(scale.hard)
    bound = eps**2 / (math.log(1 / eps) ** 2 * scale.root_log)
    asked_times = math.log(1 / eps) ** 2 / eps**2
    return Finding(
        hypotheses=(
            Hypothesis("eps_(V,1)", "<=", 1.0, eps),
            Hypothesis("1 / (lambda sqrt(log d))", "<=", 10.0, 1 / (scale.weight_decay * scale.root_log)),
            Hypothesis(
                "eta_2 against eta_1 lambda^2 eps^2 r",
                "<=",
                math.log10(settings.rate * scale.weight_decay**2 * eps**2 * settings.r),
                math.log10(settings.second_rate),
                log10=True,
            ),
        ),
        conclusions=(
            Conclusion(
                "(d.1) move of the signal of W / bound, least of runs",
                "<=",
                1.0,
                (moved / bound).min().item(),
            ),
            Conclusion(
                "(d.2) change of K1 / bound, least of runs", "<=", 1.0, (changed / bound).min().item()
            ),
            Conclusion(
                "move of the signal of W / its norm at t_1, mean of runs",
                "<=",
                0.1,
                (moved / signal_norm(first.signal.W)).mean().item(),
                claimed=False,
            ),
        ),
        numbers={
            "bound": bound,
            "move of the signal of W, mean of runs": moved.mean().item(),
            "decay times 1/lambda in the theorem's second stage": asked_times,
            "decay times measured here": settings.decay_times,
            "share of W_(t1) left after the theorem's stage 2, log10": -asked_times / math.log(10),
        },
        remark="Stage 1 lasts one decay time 1/lambda, so that the signal has reached some 63 % of where "
        "decay and gradient balance; stage 2 lasts log^2(1/eps)/eps^2 decay times and takes it the "
        "rest of the way. The rate of stage 2 is larger than the theorem's and its steps fewer; "
        "their product, the time that W has to move, is not longer.",
    )


def _both_stages(settings: Settings, scale: Assumption1, seed: int) -> Course:
    steps = round(settings.decay_times / (settings.second_rate * scale.weight_decay))
    first = ConstantRate(settings.rate, scale.first_steps(settings.rate))
    usual = NoisySGD((first,), scale.weight_decay, scale.init_std)
    config = NoisySGD(
        (first, ConstantRate(settings.second_rate, steps)),
        scale.weight_decay,
        scale.init_std,
        noise_std=settings.noise * usual.xi_std,
        record_every=10**9,
    )
    model = ReluAttention(settings.d, std=scale.init_std, runs=settings.runs, seed=seed)
    return train(model, scale.data().sample(settings.N, runs=settings.runs, seed=seed), config, seed=seed)
