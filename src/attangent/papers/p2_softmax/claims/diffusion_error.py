"""The diffusion problem that the claims on Section 6 share; Claim G.1: the four terms of the error."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attangent.audit import Conclusion, Failure, Figure, Finding, Series, Settings, claim
from attangent.papers.common.bounds import comparison
from attangent.papers.common.figures import plot
from attangent.papers.common.sizes import by_size, ratios
from attangent.papers.p2_softmax import proofs
from attangent.papers.p2_softmax.diffusion import (
    Descent,
    ErrorTerms,
    ForwardProcess,
    GaussianMixture,
    InputMap,
    KernelScore,
    NaturalInputs,
    PaperInputs,
    ScoreData,
    ScoreEstimator,
    SoftmaxScore,
    draw_data,
    error_terms,
    hilbert_function,
    relative_error,
)
from attangent.papers.p2_softmax.diffusion.errors import TERMS
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

    @classmethod
    def draw(cls, settings: Settings, seed: int, n: int | None = None) -> "DiffusionSetting":
        process, target = noised_ring(settings)
        spacing = settings.spacing
        counts = (n or settings.n, settings.get("validation", 256), settings.test)
        data, validation, test = (
            draw_data(target, process, count, seed=1000 * seed + purpose, spacing=spacing)
            for purpose, count in enumerate(counts)
        )
        return cls(process, target, data, validation, test, seed, spacing)

    def fresh(self, n: int, purpose: int) -> ScoreData:
        """Draw further data; each purpose has its own random stream."""
        return draw_data(self.target, self.process, n, seed=1000 * self.seed + purpose, spacing=self.spacing)

    @property
    def truth(self) -> Tensor:
        """F* at the test points."""
        return self.target.posterior_mean(self.process, self.test.t, self.test.x)

    def error(self, estimator: ScoreEstimator) -> float:
        """Return E|F - F*|^2 / E|F*|^2 over the test points."""
        return relative_error(estimator, self.target, self.test)

    def network(
        self,
        settings: Settings,
        m: int | None = None,
        inputs: InputMap = INPUTS["paper's inputs"],
        keep: tuple[int, ...] = (),
    ) -> SoftmaxScore:
        """Return an untrained softmax estimator with these settings, to be trained by gradient descent."""
        descent = Descent(settings.steps, settings.rate)
        return SoftmaxScore(self.process, m or settings.m, settings.sigma, inputs, descent, keep, self.seed)

    def wide_kernel(self, settings: Settings, inputs: InputMap = INPUTS["paper's inputs"]) -> KernelScore:
        """Return the estimator with the kernel of infinite width, to be fitted."""
        return KernelScore(self.process, math.inf, settings.sigma, inputs, settings.steps, settings.rate)

    def reference(self, model: SoftmaxScore, settings: Settings) -> KernelScore:
        """Return F_H, fitted to points that no other data set shares."""
        points = self.fresh(settings.reference, purpose=10)
        return hilbert_function(model, self.target, points, settings.reference_steps, settings.rate)

    def terms(self, model: SoftmaxScore, F_H: KernelScore, every: int = 2) -> list[ErrorTerms]:
        """Return the terms of Claim G.1 over the training of the model."""
        steps = sorted(model.history.snapshots)
        chosen = sorted({*steps[::every], steps[-1]})
        return error_terms(model, self.target, self.data, self.test, chosen, F_H)


def noised_ring(settings: Settings) -> tuple[ForwardProcess, GaussianMixture]:
    """Return the forward process and the mixture of these settings."""
    process = ForwardProcess(T=settings.T, T0=settings.T0)
    return process, GaussianMixture.ring(settings.modes, settings.radius, settings.sd)


LABELS = {
    "coupling": "coupling, network to kernel",
    "mismatch": "label mismatch",
    "stopping": "early stopping",
    "approximation": "approximation",
}


@claim(
    "P2/claim-g.1",
    place="Appendix G, Claim G.1",
    title="The error is at most the sum of four terms",
    quote="1/T int_0^T E|F_nn(W(tau), (t, x(t))) - F_*(t, x(t))|_2^2 dt <= Z_1 + Z_2 + Z_3 + Z_4",
    plain="""Printed: the error is at most the sum of four terms. A factor 4 is missing; it disappears in
        the O of Theorem 6.5.""",
    failure=Failure(
        "P2/claim-g.1",
        "a constant changes, inside the O of Theorem 6.5",
        "step 0, F* = 1, F_H = 1/2",
        root="|a + b + c + d|^2 needs a factor 4",
    ),
    proof=proofs.four_terms,
    quick={
        **MIXTURE,
        **NETWORK,
        "n": 128,
        "m": 64,
        "steps": 100,
        "reference": 128,
        "reference_steps": 60,
        "test": 2000,
    },
    full={"n": 512, "m": 128, "steps": 600, "reference": 512, "test": 8000},
    seconds=0.6,
)
def loss_decomposition(settings: Settings, seed: int) -> Finding:
    """E|F_nn - F*|^2 is at most the sum of four terms at every step: coupling |F_nn - F_ntk|^2, label
    mismatch |F_ntk - F~_ntk|^2, early stopping |F~_ntk - F_H|^2 and approximation |F_H - F*|^2. F_H is any
    function of bounded norm in the Hilbert space of the kernel.
    """
    problem = DiffusionSetting.draw(settings, seed)
    model = problem.network(settings).fit(problem.data)
    F_H = problem.reference(model, settings)
    terms = problem.terms(model, F_H)
    sure = [(t.excess.mean - 3 * t.excess.error) / t.scale for t in terms]
    first = next((t.step for t, excess in zip(terms, sure, strict=True) if excess > 0), None)
    start = terms[0]
    largest_ratio = max(t.total.mean / t.bound for t in terms)
    return Finding(
        conclusions=(
            Conclusion(
                "largest (error - sum of terms) / E|F*|^2 over the steps, less 3 standard errors",
                "<=",
                0.0,
                max(sure),
                first_violation=first,
            ),
            comparison("largest error / (4 times the sum)", "<=", 1.0, largest_ratio),
        ),
        numbers={
            "error / sum at step 0": start.total.mean / start.printed_bound,
            "R_H = |F_H|^2": F_H.squared_norm,
            **_sizes("at the last step", terms[-1]),
        },
        figures=(terms_figure(terms), _norms_figure(problem, F_H)),
        remark="|a + b + c + d|^2 is at most four times the sum of the squares, not the sum itself. At step "
        "0 all functions except F_H and F* are zero, and the claim says <F_H, F* - F_H> <= 0. The best "
        "approximation within a ball of the Hilbert space that does not contain F* always violates it.",
    )


def _sizes(when: str, split: ErrorTerms) -> dict[str, float]:
    terms = {f"{name} {when}": term.mean / split.scale for name, term in split.terms.items()}
    return {f"relative error {when}": split.total.mean / split.scale, **terms}


def terms_figure(terms: list[ErrorTerms]) -> Figure:
    steps = [t.step + 1 for t in terms]
    curves = [Series.of(LABELS[name], steps, [t.terms[name].mean / t.scale for t in terms]) for name in TERMS]
    total = Series.of("error of the network", steps, [t.total.mean / t.scale for t in terms], "points")
    bound = Series.of("sum of the terms", steps, [t.printed_bound / t.scale for t in terms], "bound")
    return plot("Error terms over training", ("step + 1", "mean square / E|F*|^2"), *curves, bound, total)


def _norms_figure(problem: DiffusionSetting, F_H: KernelScore) -> Figure:
    """Draw E|F*|^2 / (E|F_H|^2 + E|F_H - F*|^2), the claim at step 0, for functions of several norms."""
    test = problem.test
    true = problem.truth
    norms = []
    ratios = []
    for power in range(13):
        shorter = F_H.at(round(10 ** (power / 3)))
        estimate = shorter.posterior_mean(test.t, test.x)
        norms.append(shorter.squared_norm)
        bound = estimate.square().sum() + (estimate - true).square().sum()
        ratios.append((true.square().sum() / bound).item())
    return plot(
        "The claim at step 0: error / sum of terms; above 1 it fails",
        ("R_H = |F_H|^2", "error / sum"),
        Series.of("F_H after more and more steps", norms, ratios),
        Series.of("limit", norms, [1.0] * len(norms), "bound"),
        log="x",
    )


@claim(
    "P2/coupling-width",
    place="Section 6.2 and Theorem F.2, the coupling term",
    title="The coupling term vanishes with the width",
    quote="""we show the equivalence between softmax NN learning and corresponding neural tangent kernel
        regression, i.e., the gap between them is always small""",
    rests_on=("P2/theorem-f.2",),
    nature="remark",
    plain="The gap between network and kernel predictor falls with the width, like m^-2.",
    quick={
        **MIXTURE, **NETWORK, "n": 128, "widths": [64, 128, 256, 512], "steps": 100, "test": 1000,
        "inits": 3,
    },
    full={"n": 192, "widths": [64, 128, 256, 512, 1024], "steps": 60, "test": 1500},
    seconds=1.5,
)  # fmt: skip
def coupling_width(settings: Settings, seed: int) -> Finding:
    """The distance between the trained network and the kernel predictor at unseen points falls to zero as the
    width grows.
    """
    problem = DiffusionSetting.draw(settings, seed)
    widths = list(settings.widths)
    pairs = [_coupling(problem, settings, m) for m in widths]
    coupling, total = ([pair[i] for pair in pairs] for i in (0, 1))
    largest_share = max(ratios(coupling, total))
    return Finding(
        conclusions=(
            Conclusion.of_trend("coupling over m", "<", 0.0, widths, coupling),
            comparison("largest coupling / error of the network", "<=", 1e-3, largest_share),
        ),
        numbers={
            "coupling falls by": coupling[0] / coupling[-1],
            "exponent of m": math.log(coupling[-1] / coupling[0]) / math.log(widths[-1] / widths[0]),
            **by_size("coupling at m={}", widths, coupling),
            f"error at m={widths[-1]} / at m={widths[0]}": total[-1] / total[0],
        },
        figures=(
            plot(
                "Width and error",
                ("width m", "mean square / E|F*|^2"),
                Series.of("coupling", widths, coupling),
                Series.of("error of the network", widths, total),
            ),
        ),
    )


def _coupling(problem: DiffusionSetting, settings: Settings, m: int) -> tuple[float, float]:
    """Return the coupling term and the error of the trained network, means over starts, / E|F*|^2."""
    test = problem.test
    true = problem.truth
    pairs = torch.zeros(2, dtype=torch.float64)
    for start in range(settings.inits):
        model = replace(problem.network(settings, m), seed=1000 * problem.seed + start).fit(problem.data)
        kernel = KernelScore.like(model, settings.rate, settings.steps).fit(problem.data)
        trained = model.posterior_mean(test.t, test.x)
        gaps = trained - kernel.posterior_mean(test.t, test.x), trained - true
        pairs += torch.stack([gap.square().sum() for gap in gaps]) / true.square().sum()
    coupling, error = (pairs / settings.inits).tolist()
    return coupling, error


@claim(
    "P2/claim-g.1-repaired",
    place="Appendix G, Claim G.1, repaired",
    title="The error is at most four times the sum of the terms",
    derivation="""|a + b + c + e|^2 <= 4 (|a|^2 + |b|^2 + |c|^2 + |e|^2) by Cauchy-Schwarz; equality at a =
        b = c = e.""",
    plain="The error is at most four times the sum of the four terms.",
    proof=proofs.four_terms,
    sharp="sharp: equality if all four differences are equal",
    quick={
        **MIXTURE, **NETWORK, "m": 64, "steps": 100, "reference": 128, "reference_steps": 60, "test": 1000,
    },
    sizes=({"n": 64}, {"n": 256}),
    seconds=1.0,
)  # fmt: skip
def four_times(settings: Settings, seed: int) -> Finding:
    """E|F_nn - F*|^2 <= 4 (Z_1 + Z_2 + Z_3 + Z_4) at every step."""
    problem = DiffusionSetting.draw(settings, seed)
    model = problem.network(settings).fit(problem.data)
    terms = problem.terms(model, problem.reference(model, settings))
    largest_ratio = max(t.total.mean / t.bound for t in terms)
    return Finding(conclusions=(Conclusion("largest error / (4 times the sum)", "<=", 1.0, largest_ratio),))
