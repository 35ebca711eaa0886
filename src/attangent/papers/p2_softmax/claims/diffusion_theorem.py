"""Theorem 6.5: the error of the learned score, early stopping on noisy labels, and other estimators."""

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import torch

from attangent.audit import Conclusion, Failure, Figure, Finding, Hypothesis, Series, Settings, claim
from attangent.papers.common.bounds import LOG10_E, comparison
from attangent.papers.common.figures import plot
from attangent.papers.p2_softmax.claims.diffusion_error import (
    INPUTS,
    LOG_TIMES,
    MIXTURE,
    NETWORK,
    DiffusionSetting,
)
from attangent.papers.p2_softmax.diffusion import (
    AdamDescent,
    InputMap,
    MLPScore,
    ScoreEstimator,
    SoftmaxScore,
    checkpoints,
    score_error,
)
from attangent.papers.p2_softmax.networks import softmax_limit


@claim(
    "P2/theorem-6.5",
    place="Section 6.2, Theorem 6.5; Appendix G, Theorem G.2",
    title="The error of the learned score",
    quote="""1/T int_0^T lambda(t) E|s_W(T)(t, x(t)) - grad log p_t(X_t)|_2^2 dt <= O(1/(lambda sqrt n) +
        eps(n, T) + d A^2(R_H) + d A(R_H) + sqrt(d A(R_H) Gamma_delta) + Gamma_delta)""",
    rests_on=("P2/theorem-4.2", "P2/theorem-f.2", "P2/claim-g.1", "P2/theorem-g.4", "P2/theorem-g.5"),
    plain="""The main theorem on diffusion. Its right side is too large to test; its proof uses a false
        theorem (G.4), a dropped logarithm and a dropped norm of the kernel, so it is not proved.""",
    quick={**MIXTURE, **NETWORK, "sizes": [32, 128, 512], "m": 128, "steps": 150, "delta": 0.05},
    full={"sizes": [32, 128, 512, 1024], "steps": 300, "test": 8000, "validation": 512},
    seconds=2.5,
)
def score_error_falls(settings: Settings, seed: int) -> Finding:
    """With m = Omega(lambda^-2 n^3 d^3 e^(18B) log^2(nd/delta)) neurons, the rate 0.1 lambda/(m n^2 d^2
    e^(16B)) and a suitable number of steps, the error of the score of the trained network is at most
    O(1/(lambda sqrt n) + eps(n, T) + d A^2 + d A + sqrt(d A Gamma) + Gamma).
    """
    sizes = list(settings.sizes)
    problems = [DiffusionSetting.draw(settings, seed, n) for n in sizes]
    trained = {
        name: [p.network(settings, inputs=inputs).fit(p.data, p.validation) for p in problems]
        for name, inputs in INPUTS.items()
    }
    errors = {
        name: [p.error(model) for model, p in zip(models, problems, strict=True)]
        for name, models in trained.items()
    }
    papers = trained["paper's inputs"]
    last = problems[-1]
    scores = [score_error(model, p.target, p.test) for model, p in zip(papers, problems, strict=True)]
    curves = [Series.of(name, sizes, values) for name, values in errors.items()]
    log_score = math.log10(scores[-1])
    log_bound = _log10_right_side(last, papers[-1], settings)
    return Finding(
        hypotheses=_hypotheses(last, papers[-1], settings),
        conclusions=(
            Conclusion("error of the score, constants 1", "<=", log_bound, log_score, log10=True),
            *(
                comparison(f"error at the largest n / smallest n, {name}", "<=", 1.0, e[-1] / e[0])
                for name, e in errors.items()
            ),
            *(
                comparison(f"largest ratio of successive errors, {name}", "<=", 1.0, _worst_step(e))
                for name, e in errors.items()
            ),
        ),
        numbers={
            "weighted error of the score at the largest n": scores[-1],
            "steps until stopped, largest n": papers[-1].step,
            **{f"exponent of n, {name}": _exponent(sizes, values) for name, values in errors.items()},
            **{
                f"relative error at n={n}, {name}": error
                for name, values in errors.items()
                for n, error in zip(sizes, values, strict=True)
            },
        },
        figures=(plot("Error and data", ("training points n", "relative error"), *curves),),
        remark="The relative error is E|F - E[x(0)|x(t)]|^2 / E|E[x(0)|x(t)]|^2, with training stopped on "
        "noisy validation labels. The printed right side exceeds everything that can be measured, because "
        "lambda is below round-off for a few hundred points. The theorem does not say that the error "
        "falls with n: 1/(lambda sqrt n) need not fall.",
    )


def _exponent(sizes: list[int], errors: list[float]) -> float:
    return math.log(errors[-1] / errors[0]) / math.log(sizes[-1] / sizes[0])


def _worst_step(errors: Iterable[float]) -> float:
    return max(later / earlier for earlier, later in pairwise(errors))


def _spectrum(problem: DiffusionSetting, model: SoftmaxScore) -> tuple[float, float]:
    """Return lambda_min of H*, at least round-off, and lambda_max, for one output at infinite width."""
    X = model.inputs(problem.process, problem.data.t, problem.data.x)
    values = torch.linalg.eigvalsh(softmax_limit(X, sigma=model.sigma))
    top = values[-1].item()
    return max(values[0].item(), 1e-16 * top), top


def _hypotheses(problem: DiffusionSetting, model: SoftmaxScore, settings: Settings) -> tuple[Hypothesis, ...]:
    lam, top = _spectrum(problem, model)
    n = len(problem.data)
    d = problem.data.d
    X = model.inputs(problem.process, problem.data.t, problem.data.x)
    log_nd = math.log(n * d / settings.delta)
    B = max(10 * settings.sigma * math.sqrt(log_nd), 1.0) * LOG10_E
    width = -2 * math.log10(lam) + 3 * math.log10(n * d) + 18 * B + 2 * math.log10(log_nd)
    rate = -1 + math.log10(lam / model.m) - 2 * math.log10(n * d) - 16 * B
    used = math.log10(settings.rate / (model.m * top))
    return (
        Hypothesis("largest |x| of the inputs", "<=", 1 + 1e-12, X.norm(dim=1).max().item()),
        Hypothesis("largest |y|", "<=", 1.0, problem.data.y.norm(dim=1).max().item()),
        Hypothesis("lambda_min of H* / lambda_max above round-off", ">=", 1e-12, lam / top),
        Hypothesis("width m", ">=", width, math.log10(model.m), log10=True),
        Hypothesis("learning rate", "<=", rate, used, log10=True),
    )


def log10_terms(
    problem: DiffusionSetting, model: SoftmaxScore, settings: Settings
) -> tuple[float, float, float]:
    """Return log10 of lambda, d A(R_H) and Gamma, with constants 1 and the R_H of the kernel predictor."""
    lam, _ = _spectrum(problem, model)
    n = len(problem.data)
    d = problem.data.d
    kernel = problem.wide_kernel(settings, model.inputs)
    reach = math.sqrt(kernel.fit(problem.data).squared_norm / d)  # sqrt(R_H) / Lambda, Lambda = sqrt(d)
    A = math.sqrt(d) * reach ** (-2 / d) * math.log(max(reach, math.e))
    inner = 2 * d**2 * A / lam * math.log(math.e * (d * n) ** 1.5 * A / lam) ** 1.5 + n**-0.5
    gamma = inner**2 + (d * A / lam) ** 2 * (math.log(1 / settings.delta) + math.log(math.log(n)))
    return math.log10(lam), math.log10(d * A), math.log10(gamma)


def _log10_right_side(problem: DiffusionSetting, model: SoftmaxScore, settings: Settings) -> float:
    """Return log10 of the bound with all constants 1 and eps(n, T) = 0."""
    lam, dA, gamma = (10**term for term in log10_terms(problem, model, settings))
    n = len(problem.data)
    d = problem.data.d
    return math.log10(1 / (lam * math.sqrt(n)) + dA**2 / d + dA + math.sqrt(dA * gamma) + gamma)


@claim(
    "P2/early-stopping",
    place="Section 6.2 and Assumption G.3",
    title="Noisy labels require early stopping",
    kind="ours",
    plain=("Training on noisy labels has to stop early, and validation on noisy labels finds a good step."),
    quick={**LOG_TIMES, **NETWORK, "n": 256, "steps": 100_000_000, "test": 1500},
    full={"n": 512, "steps": 1_000_000_000, "test": 4000, "validation": 512},
    seconds=1.0,
)
def early_stopping(settings: Settings, seed: int) -> Finding:
    """Training on the noisy labels x(0) has to stop early, and a number of steps with a small error can be
    found.
    """
    problem = DiffusionSetting.draw(settings, seed)
    noisy = problem.wide_kernel(settings).fit(problem.data, problem.validation)
    clean = noisy.relabelled(problem.data.clean(problem.target, problem.process).y)
    steps = checkpoints(settings.steps, 30)
    errors = [problem.error(noisy.at(k)) for k in steps]
    without = [problem.error(clean.at(k)) for k in steps]
    chosen = problem.error(noisy)
    least = min(errors)
    excess = chosen / least
    return Finding(
        conclusions=(
            Conclusion("error at the step chosen on noisy labels / smallest error", "<=", 1.25, excess),
            Conclusion("error at the end / smallest error", ">=", 1.25, errors[-1] / least),
            comparison("final error, true labels / noisy labels", "<=", 0.25, without[-1] / errors[-1]),
        ),
        numbers={
            "step chosen": noisy.step,
            "relative error at that step": chosen,
            "smallest relative error": least,
            "step of the smallest error": steps[errors.index(least)],
            "relative error at the end": errors[-1],
            "relative error at the end, true labels": without[-1],
        },
        figures=(_stopping_figure(steps, errors, without, noisy.step, chosen),),
    )


def _stopping_figure(
    steps: list[int], errors: list[float], without: list[float], stop: int, chosen: float
) -> Figure:
    x = [step + 1 for step in steps]
    return plot(
        "Kernel descent on noisy and on true labels",
        ("step + 1", "relative error"),
        Series.of("noisy labels", x, errors),
        Series.of("true labels", x, without),
        Series.of("chosen by noisy validation labels", [stop + 1], [chosen], "points"),
    )


NAMES = {
    "gd": "softmax, gradient descent",
    "adam": "softmax, Adam",
    "mlp": "ReLU network of equal size, Adam",
    "kernel": "kernel of infinite width",
}


BARS = {"paper's inputs": 0.11, "natural inputs": 0.04}


@claim(
    "P2/score-comparison",
    place="Abstract and Section 6: softmax networks as score estimators",
    title="Softmax networks compared with other estimators",
    kind="ours",
    plain="A softmax network does not learn the score better than a ReLU network of equal size.",
    failure=Failure(
        "P2/score-comparison",
        "nothing in the paper: the question is ours",
        "n = 512 points, m = 128 neurons",
        root="a ReLU network of equal size learns the score at least as well",
    ),
    quick={**LOG_TIMES, **NETWORK, "n": 512, "m": 128, "steps": 200, "adam_rate": 2.0, "mlp_rate": 0.01},
    full={"n": 2048, "m": 256, "test": 8000, "validation": 512},
    seconds=2.0,
)
def estimators(settings: Settings, seed: int) -> Finding:
    """Does a softmax network learn the score of a diffusion process better than a ReLU network of equal size?
    This question is ours; the paper does not ask it.
    """
    problem = DiffusionSetting.draw(settings, seed)
    errors = {name: _errors(problem, settings, inputs) for name, inputs in INPUTS.items()}
    softmax = {name: min(by_estimator["gd"], by_estimator["adam"]) for name, by_estimator in errors.items()}
    gain = softmax["natural inputs"] / softmax["paper's inputs"]
    return Finding(
        conclusions=(
            *(
                Conclusion(f"error, softmax / ReLU network, {name}", "<=", 1.0, best / errors[name]["mlp"])
                for name, best in softmax.items()
            ),
            *(
                comparison(f"relative error, softmax GD, {name}", "<=", BARS[name], by_estimator["gd"])
                for name, by_estimator in errors.items()
            ),
            comparison("error of softmax with natural inputs / with the paper's", "<=", 0.5, gain),
        ),
        numbers={
            f"{NAMES[key]}, {name}": error
            for name, by_estimator in errors.items()
            for key, error in by_estimator.items()
        },
        figures=(_bars(errors),),
        remark="All estimators are stopped on the same noisy validation labels, and the better of the two "
        "training methods counts for the softmax network. The inputs of the network matter more than the "
        "kind of network.",
    )


def _errors(problem: DiffusionSetting, settings: Settings, inputs: InputMap) -> dict[str, float]:
    """Return the relative error of each estimator, stopped on noisy validation labels."""
    steps = settings.steps
    descent = problem.network(settings, inputs=inputs)
    adam = AdamDescent(steps, settings.adam_rate)
    relu = AdamDescent(2 * steps, settings.mlp_rate)
    estimators: dict[str, ScoreEstimator] = {
        "gd": descent,
        "adam": replace(descent, trainer=adam),
        "mlp": MLPScore.sized_like(descent, problem.data.d, relu),
        "kernel": problem.wide_kernel(settings, inputs),
    }
    return {
        key: problem.error(estimator.fit(problem.data, problem.validation))
        for key, estimator in estimators.items()
    }


def _bars(errors: dict[str, dict[str, float]]) -> Figure:
    places = range(len(NAMES))
    return Figure(
        "Relative error of the posterior mean",
        "estimator",
        "E|F - F*|^2 / E|F*|^2",
        tuple(
            Series.of(name, places, [by_estimator[key] for key in NAMES], "bars")
            for name, by_estimator in errors.items()
        ),
        ticks=tuple(NAMES.values()),
    )
