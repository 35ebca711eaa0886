"""Section 6.1: samples drawn with the learned score, and the time at which the score is evaluated."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit import Conclusion, Failure, Figure, Finding, Series, Settings, claim
from attangent.papers.common.bounds import comparison
from attangent.papers.common.figures import plot
from attangent.papers.p2_softmax import proofs
from attangent.papers.p2_softmax.claims.diffusion_error import (
    INPUTS,
    LOG_TIMES,
    NETWORK,
    DiffusionSetting,
    terms_figure,
)
from attangent.papers.p2_softmax.claims.score import true_samples
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
    **LOG_TIMES, **NETWORK, "n": 512, "m": 256, "steps": 300, "samples": 2000, "walk": 60,
    "shown": [3, 30, 300],
}  # fmt: skip


@claim(
    "P2/sampling",
    place="Section 6.1, the backward process with s_theta",
    title="Sampling with the learned score",
    kind="ours",
    quote="""Thus, we obtain a practically implementable approximation of the backward SDE ... which can be
        used for sampling/data generation""",
    plain="Samples drawn with the learned score reach all modes.",
    quick={**_SIZES, "reference": 256, "reference_steps": 300, "test": 2000},
    full={
        "n": 1024, "steps": 600, "shown": [3, 30, 600], "samples": 4000, "walk": 100, "reference": 512,
        "reference_steps": 600,
    },
    seconds=4.0,
)  # fmt: skip
def sampling(settings: Settings, seed: int) -> Finding:
    """Samples of the data can be drawn by the backward process with the learned score instead of the true
    one, started in N(0, I). The paper gives no measure of quality; the thresholds are ours. So are the
    log-uniform times: with t ~ Unif(0, T), as in the paper, some modes are missed.
    """
    problem = DiffusionSetting.draw(settings, seed)
    models = {name: _trained(problem, settings, inputs) for name, inputs in INPUTS.items()}
    truth = true_samples(problem.process, problem.target, settings.samples, seed)
    draws = {name: _over_training(problem, settings, model) for name, model in models.items()}
    ends = {name: steps[settings.shown[-1]] for name, steps in draws.items()}
    ends["exact score"] = _draw(ExactScore(problem.process, problem.target), problem, settings)
    ends["noise"] = torch.randn(truth.shape, generator=generator(seed, "start"), dtype=torch.float64)
    ratios = {name: sample_quality(samples, truth).ratio for name, samples in ends.items()}
    marginal = problem.target.at(problem.process, problem.process.T0)
    reached = {name: mode_coverage(ends[name], marginal) for name in INPUTS}
    papers = models["paper's inputs"]
    terms = problem.terms(papers, problem.reference(papers, settings), every=3)
    return Finding(
        conclusions=_sampling_conclusions(ratios, reached),
        numbers={
            **{f"distance / floor, {name}": ratio for name, ratio in ratios.items()},
            **{f"strays, {name}": cover.strays for name, cover in reached.items()},
            **{f"MMD^2, {name}": mmd(samples[:1000], truth[:1000]) for name, samples in ends.items()},
        },
        figures=(_scatter(truth, draws, settings.shown), terms_figure(terms), _distance_figure(draws, truth)),
        remark="All distances are sliced Wasserstein distances at time T0, the end of sampling. The floor "
        "is the distance of true samples to true samples.",
    )


def _sampling_conclusions(ratios: dict[str, float], reached: dict[str, Coverage]) -> tuple[Conclusion, ...]:
    relative = {name: ratios[name] / ratios["noise"] for name in INPUTS}
    gain = ratios["natural inputs"] / ratios["paper's inputs"]
    return (
        *(
            Conclusion(f"modes reached, {name}", ">=", cover.modes, cover.covered)
            for name, cover in reached.items()
        ),
        *(
            Conclusion(f"distance to true samples / distance of noise, {name}", "<=", 0.5, ratio)
            for name, ratio in relative.items()
        ),
        comparison("distance with natural inputs / with the paper's", "<=", 1.0, gain),
    )


def _trained(problem: DiffusionSetting, settings: Settings, inputs: Any) -> SoftmaxScore:
    return problem.network(settings, inputs=inputs, keep=tuple(settings.shown)).fit(problem.data)


def _over_training(problem: DiffusionSetting, settings: Settings, model: SoftmaxScore) -> dict[int, Tensor]:
    return {step: _draw(model.at(step), problem, settings) for step in settings.shown}


def _draw(score: Scorer, problem: DiffusionSetting, settings: Settings) -> Tensor:
    return sample(score, problem.process, settings.samples, "sde", steps=settings.walk, seed=problem.seed)


def _scatter(truth: Tensor, draws: dict[str, dict[int, Tensor]], shown: list[int], each: int = 120) -> Figure:
    """Draw panels: one column for the truth and one per training step, one row per input map."""
    columns = [
        ("true samples", [truth, truth]),
        *((f"after {step} steps", [draws[name][step] for name in INPUTS]) for step in shown),
    ]
    series = []
    for column, (label, rows) in enumerate(columns):
        shifted = [
            rows[row][:each].clamp(-1.3, 1.3) + torch.tensor([2.8 * column, -2.8 * row]) for row in (0, 1)
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
        Series.of(name, list(steps), [sample_quality(samples, truth).ratio for samples in steps.values()])
        for name, steps in draws.items()
    )
    return plot(
        "Quality of samples over training", ("training step", "sliced Wasserstein distance / floor"), *curves
    )


@dataclass(frozen=True)
class PrintedClock:
    """A score that is evaluated at the time u = T - t that the backward process has run, as printed."""

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
    title="The time at which the score is evaluated",
    quote="dy(t) = (1/2 g(T-t) y(t) + g(T-t) s_theta(y(t), t)) dt + sqrt(g(T-t)) dB_t",
    nature="misprint",
    plain="""The sampler is printed with the score at time t; it has to be T - t, as in the equation
        before it.""",
    failure=Failure(
        "P2/sampling-printed-time",
        "used nowhere: Theorem 6.5 is about the score, not the sampler",
        "any t other than T/2",
        root="t is printed for T - t",
    ),
    proof=proofs.wrong_clock,
    unconditional=True,
    quick={**LOG_TIMES, "n": 2, "test": 2, "samples": 4000, "walk": 100},
    full={"samples": 20000, "walk": 500},
    seconds=1.0,
)
def printed_time(settings: Settings, seed: int) -> Finding:
    """The implementable backward process evaluates the estimator s_theta(y(t), t) at the time t that the
    backward process has run.
    """
    problem = DiffusionSetting.draw(settings, seed)
    exact = ExactScore(problem.process, problem.target)
    truth = true_samples(problem.process, problem.target, settings.samples, seed)
    right = _draw(exact, problem, settings)
    printed = _draw(PrintedClock(exact, problem.process), problem, settings)
    right_ratio = sample_quality(right, truth).ratio
    printed_ratio = sample_quality(printed, truth).ratio
    name = "distance to true samples / floor"
    return Finding(
        conclusions=(
            Conclusion(
                "exact score at t: largest relative distance of the drift to that of Eq. (4)",
                "<=",
                1e-10,
                _drift_gap(exact, problem, truth),
            ),
            Conclusion(f"score at t: {name}", "<=", 1.2, printed_ratio, threshold="ours"),
            comparison(f"score at T - t: {name}", "<=", 1.2, right_ratio),
        ),
        numbers={
            "distance / floor, score at T - t": right_ratio,
            "distance / floor, score at t, as printed": printed_ratio,
        },
        figures=(
            plot(
                "Samples of the exact score",
                ("first coordinate", "second coordinate"),
                _dots("evaluated at t", printed[:200].clamp(-4, 4)),
                _dots("evaluated at T - t", right[:200].clamp(-4, 4)),
                log="",
            ),
        ),
        remark="Eq. (4), whose score is replaced, has T - t; with t the process does not lead to the data.",
    )


def _drift_gap(exact: ExactScore, problem: DiffusionSetting, points: Tensor) -> float:
    """Return the largest distance over times of the printed drift to that of Eq.

    (4), relative to the latter.
    """
    process = problem.process
    y = points[:200]
    printed_clock = PrintedClock(exact, process)
    gaps = []
    for share in (0.1, 0.3, 0.7, 0.9):
        t = torch.full((len(y),), share * process.T, dtype=torch.float64)  # T - t, the time of the diffusion
        right, printed = (0.5 * y + score.score(t, y) for score in (exact, printed_clock))
        gaps.append(((printed - right).norm() / right.norm()).item())
    return max(gaps)


@claim(
    "P2/sampling-printed-time-repaired",
    place="Section 6.1, repaired",
    title="The score is evaluated at T - t",
    derivation="""y(t) = x(T - t): this is Eq. (4) with the estimator for its score, which is that at time T
        - t.""",
    nature="misprint",
    plain="With the score at T - t the sampler leads to the data.",
    sharp="sharp: an identity of processes",
    quick={**LOG_TIMES, "n": 2, "test": 2, "samples": 4000, "tolerance": 1.2},
    sizes=({"walk": 60}, {"walk": 120}),
    seconds=1.0,
)
def right_time(settings: Settings, seed: int) -> Finding:
    """dy = (g(T-t) y/2 + g(T-t) s_theta(y, T-t)) dt + sqrt(g(T-t)) dB leads to samples of the data if s_theta
    is the score.
    """
    problem = DiffusionSetting.draw(settings, seed)
    truth = true_samples(problem.process, problem.target, settings.samples, seed)
    samples = _draw(ExactScore(problem.process, problem.target), problem, settings)
    ratio = sample_quality(samples, truth).ratio
    return Finding(
        conclusions=(Conclusion("distance to true samples / floor", "<=", settings.tolerance, ratio),)
    )
