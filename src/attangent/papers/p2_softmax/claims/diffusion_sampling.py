"""Section 6.1: samples drawn with the learned score, and the time at which the score is evaluated."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Series
from attangent.audit.registry import claim
from attangent.papers.common.figures import plot
from attangent.papers.p2_softmax.claims.diffusion_error import (
    reference_function,
    terms_figure,
    terms_over_training,
)
from attangent.papers.p2_softmax.claims.diffusion_setting import (
    INPUTS,
    LOG_TIMES,
    NETWORK,
    DiffusionSetting,
    diffusion_setting,
    network,
)
from attangent.papers.p2_softmax.diffusion import (
    Coverage,
    ExactScore,
    ForwardProcess,
    SoftmaxScore,
    mmd,
    mode_coverage,
    sample,
    sample_quality,
)
from attangent.papers.p2_softmax.diffusion.sampling import Scorer

_SIZES = {
    **LOG_TIMES,
    **NETWORK,
    "n": 512,
    "m": 256,
    "steps": 300,
    "samples": 2000,
    "walk": 60,
    "shown": [3, 30, 300],
}


@claim(
    "P2/sampling",
    place="Section 6.1, the backward process with s_theta",
    title="Sampling with the learned score",
    kind="ours",
    quote="""Thus, we obtain a practically implementable approximation of the backward SDE ... which can be
        used for sampling/data generation""",
    quick={**_SIZES, "reference": 256, "reference_steps": 300, "test": 2000},
    full={
        "n": 1024,
        "steps": 600,
        "shown": [3, 30, 600],
        "samples": 4000,
        "walk": 100,
        "reference": 512,
        "reference_steps": 600,
    },
    seconds=4.0,
)
def sampling(settings: Settings, seed: int) -> Finding:
    """The backward process with the learned score in the place of the true one, started in N(0, I), can be
    used to draw samples of the data. How good they have to be the paper does not say; the thresholds are
    ours, and so are the times, drawn log-uniformly: with t ~ Unif(0, T) as the paper draws them, modes are
    missed.
    """
    problem = diffusion_setting(settings, seed)
    models = {name: _trained(problem, settings, inputs) for name, inputs in INPUTS.items()}
    truth = _true_samples(problem, settings.samples)
    draws = {name: _over_training(problem, settings, model) for name, model in models.items()}
    ends = {name: steps[settings.shown[-1]] for name, steps in draws.items()}
    ends["exact score"] = _draw(ExactScore(problem.process, problem.target), problem, settings)
    ends["noise"] = torch.randn(truth.shape, generator=generator(seed, "start"), dtype=torch.float64)
    ratios = {name: sample_quality(found, truth).ratio for name, found in ends.items()}
    marginal = problem.target.at(problem.process, problem.process.T0)
    reached = {name: mode_coverage(ends[name], marginal) for name in INPUTS}
    papers = models["paper's inputs"]
    terms = terms_over_training(problem, papers, reference_function(problem, papers, settings), every=3)
    return Finding(
        conclusions=_sampling_conclusions(ratios, reached),
        numbers={
            **{f"distance / floor, {name}": ratio for name, ratio in ratios.items()},
            **{f"strays, {name}": cover.strays for name, cover in reached.items()},
            **{f"MMD^2, {name}": mmd(found[:1000], truth[:1000]) for name, found in ends.items()},
        },
        figures=(_scatter(truth, draws, settings.shown), terms_figure(terms), _distance_figure(draws, truth)),
        remark="All distances are sliced Wasserstein ones at time T0, where the samplers stop; the floor is "
        "that of true samples to true samples.",
    )


def _sampling_conclusions(ratios: dict[str, float], reached: dict[str, Coverage]) -> tuple[Conclusion, ...]:
    modes = [
        Conclusion(f"modes reached, {name}", ">=", cover.modes, cover.covered)
        for name, cover in reached.items()
    ]
    distances = [
        Conclusion(
            f"distance to true samples / that of noise, {name}", "<=", 0.5, ratios[name] / ratios["noise"]
        )
        for name in INPUTS
    ]
    natural = ratios["natural inputs"]
    papers = ratios["paper's inputs"]
    ours = Conclusion(
        "distance with natural inputs / with the paper's", "<=", 1.0, natural / papers, claimed=False
    )
    return (*modes, *distances, ours)


def _trained(problem: DiffusionSetting, settings: Settings, inputs: Any) -> SoftmaxScore:
    return network(problem, settings, inputs=inputs, keep=tuple(settings.shown)).fit(problem.data)


def _true_samples(problem: DiffusionSetting, n: int) -> Tensor:
    rng = generator(problem.seed, "true samples")
    return problem.process.noised(problem.target.draw(n, rng), problem.process.T0, rng)


def _over_training(problem: DiffusionSetting, settings: Settings, model: SoftmaxScore) -> dict[int, Tensor]:
    return {step: _draw(model.at(step), problem, settings) for step in settings.shown}


def _draw(score: Scorer, problem: DiffusionSetting, settings: Settings) -> Tensor:
    walk = settings.walk
    seed = problem.seed
    return sample(score, problem.process, settings.samples, "sde", steps=walk, seed=seed)


def _scatter(truth: Tensor, draws: dict[str, dict[int, Tensor]], shown: list[int], each: int = 120) -> Figure:
    """Panels: a column for the truth and one for each training step, a row for each input map."""
    columns = [
        ("true samples", [truth, truth]),
        *((f"after {step} steps", [draws[name][step] for name in INPUTS]) for step in shown),
    ]
    series = []
    for place, (label, rows) in enumerate(columns):
        shifted = [
            rows[row][:each].clamp(-1.3, 1.3) + torch.tensor([2.8 * place, -2.8 * row]) for row in (0, 1)
        ]
        series.append(_dots(label, torch.cat(shifted)))
    return plot(
        "Samples over training: the paper's inputs above, natural inputs below",
        ("first coordinate, panels side by side", "second coordinate"),
        *series,
        log="",
    )


def _dots(label: str, points: Tensor) -> Series:
    return Series.of(label, points[:, 0], points[:, 1], "points")


def _distance_figure(draws: dict[str, dict[int, Tensor]], truth: Tensor) -> Figure:
    curves = tuple(
        Series.of(name, list(steps), [sample_quality(found, truth).ratio for found in steps.values()])
        for name, steps in draws.items()
    )
    return plot(
        "Samples get better with training", ("training step", "sliced Wasserstein distance / floor"), *curves
    )


@dataclass(frozen=True)
class PrintedClock:
    """The score asked at the time u = T - t that the backward process has run, as printed."""

    inner: Scorer
    process: ForwardProcess

    @property
    def d(self) -> int:
        return self.inner.d

    def score(self, t: Any, x: Any) -> Tensor:
        return self.inner.score((self.process.T - t).clamp(min=self.process.T0), x)


@claim(
    "P2/sampling-printed-time",
    place="Section 6.1, the backward process with s_theta(y(t), t)",
    title="The time at which the score is asked",
    kind="misprint",
    quote="dy(t) = (1/2 g(T-t) y(t) + g(T-t) s_theta(y(t), t)) dt + sqrt(g(T-t)) dB_t",
    quick={**LOG_TIMES, "n": 2, "test": 2, "samples": 4000, "walk": 100},
    full={"samples": 20000, "walk": 500},
    seconds=1.0,
)
def printed_time(settings: Settings, seed: int) -> Finding:
    """The implementable backward process asks the estimator for s_theta(y(t), t), with t the time that the
    backward process has run.
    """
    problem = diffusion_setting(settings, seed)
    exact = ExactScore(problem.process, problem.target)
    truth = _true_samples(problem, settings.samples)
    right = _draw(exact, problem, settings)
    printed = _draw(PrintedClock(exact, problem.process), problem, settings)
    distances = {
        "score at T - t": sample_quality(right, truth).ratio,
        "score at t, as printed": sample_quality(printed, truth).ratio,
    }
    return Finding(
        conclusions=(
            Conclusion(
                "drift with the exact score asked at t: largest relative distance to that of Eq. (4)",
                "<=",
                1e-10,
                _drift_gap(exact, problem, truth),
            ),
            Conclusion(
                "exact score at t: distance to true samples / floor",
                "<=",
                1.2,
                distances["score at t, as printed"],
                threshold="ours",
            ),
            Conclusion(
                "exact score at T - t: distance to true samples / floor",
                "<=",
                1.2,
                distances["score at T - t"],
                claimed=False,
            ),
        ),
        numbers={f"distance / floor, {name}": ratio for name, ratio in distances.items()},
        figures=(
            plot(
                "Samples of the exact score",
                ("first coordinate", "second coordinate"),
                _dots("asked at t", printed[:200].clamp(-4, 4)),
                _dots("asked at T - t", right[:200].clamp(-4, 4)),
                log="",
            ),
        ),
        remark="Eq. (4) and the score it replaces have T - t; with t the process does not lead to the data.",
    )


def _drift_gap(exact: ExactScore, problem: DiffusionSetting, points: Tensor) -> float:
    """The largest distance of the printed drift to that of Eq. (4) over times, relative to the latter."""
    process = problem.process
    y = points[:200]
    asked = PrintedClock(exact, process)
    gaps = []
    for share in (0.1, 0.3, 0.7, 0.9):
        t = torch.full((len(y),), share * process.T, dtype=torch.float64)  # T - t, the diffusion's own time
        right, printed = (0.5 * y + score.score(t, y) for score in (exact, asked))
        gaps.append(((printed - right).norm() / right.norm()).item())
    return max(gaps)


@claim(
    "P2/sampling-printed-time-repaired",
    repairs="P2/sampling-printed-time",
    place="Section 6.1, repaired",
    title="The score is asked at T - t",
    derivation="y(t) = x(T - t): Eq. (4) with the estimator for the score it has, that at time T - t.",
    quick={**LOG_TIMES, "n": 2, "test": 2, "samples": 4000, "tolerance": 1.2},
    sizes=({"walk": 60}, {"walk": 120}),
    seconds=1.0,
)
def right_time(settings: Settings, seed: int) -> Finding:
    """dy = (g(T-t) y/2 + g(T-t) s_theta(y, T-t)) dt + sqrt(g(T-t)) dB leads to samples of the data where
    s_theta is the score.
    """
    problem = diffusion_setting(settings, seed)
    process = problem.process
    rng = generator(seed, "true samples")
    truth = process.noised(problem.target.draw(settings.samples, rng), process.T0, rng)
    exact = ExactScore(process, problem.target)
    found = sample(exact, process, settings.samples, "sde", steps=settings.walk, seed=seed)
    ratio = sample_quality(found, truth).ratio
    return Finding(
        conclusions=(Conclusion("distance to true samples / floor", "<=", settings.tolerance, ratio),)
    )
