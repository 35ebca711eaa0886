"""The softmax estimator beside a ReLU network of equal size, its kernel and other training."""

import math

from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Series
from attangent.audit.registry import claim
from attangent.papers.p2_softmax.claims.diffusion_setting import (
    INPUTS,
    LOG_TIMES,
    NETWORK,
    DiffusionSetting,
    diffusion_setting,
    network,
)
from attangent.papers.p2_softmax.diffusion import (
    Adam,
    InputMap,
    KernelScore,
    MLPScore,
    ScoreEstimator,
    SoftmaxScore,
    relative_error,
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
    title="Softmax networks beside other estimators",
    kind="ours",
    statement="""A question of ours, about which the paper says nothing: does a softmax network learn the
        score of a diffusion process better than a ReLU network of equal size?""",
    quick={**LOG_TIMES, **NETWORK, "n": 1024, "m": 256, "steps": 200, "adam_rate": 2.0, "mlp_rate": 0.01},
    full={"n": 2048, "test": 8000, "validation": 512},
    seconds=5.0,
)
def comparison(settings: Settings, seed: int) -> Finding:
    problem = diffusion_setting(settings, seed)
    errors = {name: _errors(problem, settings, inputs) for name, inputs in INPUTS.items()}
    softmax = {name: min(found["gd"], found["adam"]) for name, found in errors.items()}
    return Finding(
        conclusions=(
            *(
                Conclusion(
                    f"error of softmax / of the ReLU network, {name}", "<=", 1.0, best / errors[name]["mlp"]
                )
                for name, best in softmax.items()
            ),
            *(
                Conclusion(
                    f"relative error of softmax by descent, {name}",
                    "<=",
                    BARS[name],
                    found["gd"],
                    claimed=False,
                )
                for name, found in errors.items()
            ),
            Conclusion(
                "error with natural inputs / with the paper's, softmax",
                "<=",
                0.5,
                softmax["natural inputs"] / softmax["paper's inputs"],
                claimed=False,
            ),
        ),
        numbers={
            f"{NAMES[key]}, {name}": error for name, found in errors.items() for key, error in found.items()
        },
        figures=(_bars(errors),),
        remark="All are stopped on the same noisy validation labels; the better of the two ways to train "
        "the softmax network counts. What the network is fed matters more than which network it is.",
    )


def _errors(problem: DiffusionSetting, settings: Settings, inputs: InputMap) -> dict[str, float]:
    """Relative error of each estimator, stopped on noisy validation labels."""

    def error(estimator: ScoreEstimator) -> float:
        return relative_error(estimator.fit(problem.data, problem.validation), problem.target, problem.test)

    return {key: error(estimator) for key, estimator in _estimators(problem, settings, inputs).items()}


def _estimators(problem: DiffusionSetting, settings: Settings, inputs: InputMap) -> dict[str, ScoreEstimator]:
    process, steps, seed = problem.process, settings.steps, problem.seed
    descent = network(problem, settings, inputs=inputs)
    adam = Adam(steps, settings.adam_rate, quiet=True)
    relu = Adam(2 * steps, settings.mlp_rate, quiet=True)
    return {
        "gd": descent,
        "adam": SoftmaxScore(process, settings.m, settings.sigma, inputs, adam, seed=seed),
        "mlp": MLPScore.sized_like(descent, problem.data.d, relu),
        "kernel": KernelScore(process, math.inf, settings.sigma, inputs, steps, settings.rate),
    }


def _bars(errors: dict[str, dict[str, float]]) -> Figure:
    places = range(len(NAMES))
    return Figure(
        "Relative error of the posterior mean",
        "estimator",
        "E|F - F*|^2 / E|F*|^2",
        tuple(
            Series.of(name, places, [found[key] for key in NAMES], "bars") for name, found in errors.items()
        ),
        ticks=tuple(NAMES.values()),
    )
