"""The diffusion problem that the claims on Section 6 share: process, target, data, networks."""

from dataclasses import dataclass

from attangent.audit import Settings
from attangent.papers.p2_softmax.diffusion import (
    Descent,
    ForwardProcess,
    GaussianMixture,
    InputMap,
    NaturalInputs,
    PaperInputs,
    ScoreData,
    SoftmaxScore,
    draw_data,
)
from attangent.papers.p2_softmax.diffusion.process import Spacing

MIXTURE = {"modes": 4, "radius": 0.7, "sd": 0.1, "T": 5.0, "T0": 0.02, "spacing": "uniform"}
"""Four modes on a ring; times are drawn as the paper draws them, t ~ Unif(0, T), from T0 on."""
LOG_TIMES = {**MIXTURE, "spacing": "log"}
"""The same with log-uniform times, which show small t often enough to draw samples: our choice."""
NETWORK = {"sigma": 1.0, "rate": 1.9, "test": 4000}
INPUTS: dict[str, InputMap] = {"paper's inputs": PaperInputs(), "natural inputs": NaturalInputs()}


@dataclass(frozen=True)
class DiffusionSetting:
    """A mixture under a forward process with independent training, validation and test data."""

    process: ForwardProcess
    target: GaussianMixture
    data: ScoreData
    validation: ScoreData
    test: ScoreData
    seed: int
    spacing: Spacing

    def fresh(self, n: int, purpose: int) -> ScoreData:
        """Draw further data; each purpose has its own random stream."""
        return _draw(self.target, self.process, n, self.seed, purpose, self.spacing)


def diffusion_setting(settings: Settings, seed: int, n: int | None = None) -> DiffusionSetting:
    process = ForwardProcess(T=settings.T, T0=settings.T0)
    target = GaussianMixture.ring(settings.modes, settings.radius, settings.sd)
    spacing = settings.spacing
    counts = (n or settings.n, settings.get("validation", 256), settings.test)
    data, validation, test = (
        _draw(target, process, count, seed, purpose, spacing) for purpose, count in enumerate(counts)
    )
    return DiffusionSetting(process, target, data, validation, test, seed, spacing)


def _draw(
    target: GaussianMixture, process: ForwardProcess, n: int, seed: int, purpose: int, spacing: Spacing
) -> ScoreData:
    return draw_data(target, process, n, seed=1000 * seed + purpose, spacing=spacing)


def network(
    problem: DiffusionSetting,
    settings: Settings,
    m: int | None = None,
    inputs: InputMap | None = None,
    keep: tuple[int, ...] = (),
) -> SoftmaxScore:
    """Return an untrained softmax estimator with these settings, to be trained by gradient descent."""
    descent = Descent(settings.steps, settings.rate)
    chosen = inputs or PaperInputs()
    return SoftmaxScore(problem.process, m or settings.m, settings.sigma, chosen, descent, keep, problem.seed)
