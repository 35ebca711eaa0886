"""Propositions 6 and 7, Equation 21: answers of the noise weights, with independent labels or the data."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit import Conclusion, Failure, Figure, Finding, Hypothesis, Series, Settings, claim
from attangent.papers.common.figures import plot
from attangent.papers.common.sizes import by_size, no_growth, ratios
from attangent.papers.p3_two_stage.claims import proofs_of_patterns
from attangent.papers.p3_two_stage.claims.two_stage_setting import easy_slope
from attangent.papers.p3_two_stage.theory.attention import ReluAttention, attend, scores
from attangent.papers.p3_two_stage.theory.data import PromptPart, TwoStageData

SETTING = {
    "d": 16, "lengths": [129, 513, 1025, 4097], "draws": 100, "tau_0": 0.6, "u": 2.0, "r": 1.0,
    "independent_labels": True,
}  # fmt: skip


@claim(
    "P3/proposition-6",
    nature="lemma",
    plain="With labels that are fair coins the noise answers little, as printed.",
    place="Appendix E, Proposition 6",
    title="The answer of the noise weights is small",
    quote="Under the same setting as Lemma 6, we have w.h.p over the randomness of U",
    quick={**SETTING, "lengths": [33, 129, 513, 1025], "draws": 200},
    full={"lengths": [33, 129, 513, 2049, 4097], "draws": 300},
    seconds=0.8,
)
def noise_answers_little(settings: Settings, seed: int) -> Finding:
    """If the labels are fair coins, independent of the tokens (the setting of Lemma 6), the answer of the
    noise weights alone is at most a constant times tau_0 |x|^2 sqrt(d log d / L) with high probability.
    """
    answers = answers_over_lengths(settings, seed)
    relative = {name: ratios(answers.sizes[name], _printed_bounds(settings, name)) for name in "PQ"}
    fair = float(settings.independent_labels)
    return Finding(
        hypotheses=(Hypothesis("labels independent of tokens, as in Lemma 6", "==", 1.0, fair),),
        conclusions=tuple(
            no_growth(f"exponent in L of |answer| / bound, {name} parts", settings.lengths, values)
            for name, values in relative.items()
        ),
        numbers={
            f"|answer| / bound with constant 1 at the largest L, {name} parts": values[-1]
            for name, values in relative.items()
        },
        figures=(_figure(settings, answers),),
    )


@claim(
    "P3/equation-21",
    nature="proof step",
    plain="""Printed: the noise answers little on the training prompts. True for Q parts, except with
        probability of order r/u, and for P parts up to L = d^2; for longer prompts the answer does not
        fall, since labels and tokens are tied.""",
    failure=Failure(
        cause="P3/equation-21",
        consequence="the proofs of Theorems 2 and 4 fall for L >> d^2",
        first_size="L = d^3: by d = 9 with the constant 1, by d = 970 with the constant 10, where the "
            "standard deviation reaches the bound",
        root="labels that the data ties to the tokens are treated as fair coins",
    ),
    proof=proofs_of_patterns.equation_21,
    ours=("for every L = Theta(Poly(d))",),
    place="Appendix F.2, Equation 21 (Corollaries 6 and 7, Equations 16 and 17, on the training prompts)",
    title="The answer of the noise weights on the prompts of Section 3.1",
    quote="""With Corollary 6, and choice of small u, r ... <~ tau_0 (u + gamma_0)^2 sqrt(d log d / L) <~
        1/Poly(d) =: eps_{W,1}""",
    quick={
        **SETTING, "independent_labels": False, "r": 0.1, "lengths": [65, 129, 257, 513],
        "dimensions": [6, 8, 12, 16],
    },
    full={"lengths": [129, 513, 2049, 4097], "dimensions": [6, 8, 12, 16, 24], "draws": 300},
    rests_on=("P3/proposition-6", "P3/proposition-7"),
    seconds=1.0,
)  # fmt: skip
def noise_answers_on_the_data(settings: Settings, seed: int) -> Finding:
    """On the prompts of Section 3.1 the answer of the noise weights is at most a constant times eps_(W,1) =
    tau_0 |x|^2 sqrt(d log d / L) for P parts and every L = Theta(Poly(d)). With r << u it is at most
    eps_(V,1) for Q parts: it falls like L^(-1/2).
    """
    answers = answers_over_lengths(settings, seed)
    part = "Q parts"
    falls = f"exponent in L of |answer|, {part} (Corollary 7 allows -1/3 at most)"
    return Finding(
        hypotheses=(Hypothesis("r / u (choice of small r)", "<=", 0.05, settings.r / settings.u, part=part),),
        conclusions=(
            _bound_trend(settings, 3, seed),
            _bound_trend(settings, 2, seed),
            Conclusion.of_trend(falls, "<=", -1 / 3, settings.lengths, answers.sizes["Q"], part=part),
        ),
        numbers={
            f"95 % of |answer| at L = {L}, {name} parts": answers.sizes[name][i]
            for i, L in ((0, settings.lengths[0]), (-1, settings.lengths[-1]))
            for name in "PQ"
        }
        | {"P(noise separates z from z +- zeta)": 2 / math.pi * math.atan(settings.r / settings.u)},
        figures=(_figure(settings, answers),),
        remark="Proposition 6 treats the labels as fair coins, independent of the tokens. In the prompts of "
        "Section 3.1 a token determines its label, and the mean of y_i relu(x_i'U x_L) is not 0. For P parts "
        "it is of order tau_0/sqrt(d) and does not fall with L: the printed bound is kept up to L = d^2 and "
        "fails by a growing factor beyond. For Q parts the mean is 0 unless the noise separates z from z +- "
        "zeta, which has the probability (2/pi) atan(r/u).",
    )


def _bound_trend(settings: Settings, power: int, seed: int) -> Conclusion:
    """Return the line that |answer| / bound does not grow with d for P parts at L = d^power."""
    relative = []
    for d in settings.dimensions:
        sized = settings | {"d": d, "lengths": [d**power + 1]}
        relative += ratios(answers_over_lengths(sized, seed).sizes["P"], _printed_bounds(sized, "P"))
    part = f"P parts, L = d^{power}"
    return no_growth(f"exponent in d of |answer| / bound, {part}", settings.dimensions, relative, part=part)


@dataclass(frozen=True)
class NoiseAnswers:
    """95 % quantiles over noise weights and prompts of |answer|, and of its distance to the mean over
    contexts, at each L for P and Q parts.
    """

    sizes: dict[str, list[float]]
    distances: dict[str, list[float]]


def answers_over_lengths(settings: Settings, seed: int) -> NoiseAnswers:
    result = NoiseAnswers({"P": [], "Q": []}, {"P": [], "Q": []})
    for L in settings.lengths:
        data = TwoStageData(settings.d, L, u=settings.u, r=settings.r, seed=seed)
        noise = ReluAttention(settings.d, std=settings.tau_0, runs=settings.draws, seed=seed).weights
        prompts = data.sample(1, runs=settings.draws, seed=seed)
        means = mean_answers(data, noise.W, noise.V, prompts.p, prompts.q)
        for name, part, U in (("P", prompts.p, noise.W), ("Q", prompts.q, noise.V)):
            labelled = _fair(part, seed) if settings.independent_labels else part
            answers = attend(labelled, U, torch.ones(1, dtype=torch.float64))
            result.sizes[name].append(answers.abs().quantile(0.95).item())
            result.distances[name].append((answers - means[name]).abs().quantile(0.95).item())
    return result


def mean_answers(data: TwoStageData, W: Tensor, V: Tensor, p: PromptPart, q: PromptPart) -> dict[str, Tensor]:
    """E y relu(x'U x_L) over a token with its label, for balanced labels: (mu/2) w*'W x_L for P parts, and
    -(|b| - |a|)_+ / 4 with a = z'V x_L, b = zeta'V x_L for Q parts.
    """
    a, b = (_form(left, V, q.query) for left in (data.z, data.zeta))
    easy = easy_slope(data.d) / 2 * _form(data.w_star, W, p.query)
    return {"P": easy, "Q": -(b.abs() - a.abs()).clamp_min(0) / 4}


def _form(left: Tensor, U: Tensor, query: Tensor) -> Tensor:
    """Return left'U query (runs, n), for one head."""
    return ((left @ U[:, 0])[:, None] * query).sum(-1)


def _fair(part: PromptPart, seed: int) -> PromptPart:
    """Return the same tokens with labels that are fair coins; gathered tokens get the sum of their labels."""
    rng = generator(seed, "fair labels")
    counts = part.labels.abs()
    heads = torch.binomial(counts, torch.full_like(counts, 0.5), generator=rng)
    return replace(part, labels=2 * heads - counts)


def _printed_bounds(settings: Settings, name: str) -> list[float]:
    """Return tau_0 |x|^2 sqrt(d log d / L) at each L, for P or Q parts."""
    norm = 1 + 1 / math.sqrt(settings.d) if name == "P" else settings.u + settings.r
    logs = settings.d * math.log(settings.d)
    return [settings.tau_0 * norm**2 * math.sqrt(logs / L) for L in settings.lengths]


def _figure(settings: Settings, answers: NoiseAnswers) -> Figure:
    return plot(
        "Answers of the noise weights",
        ("L", "95 % quantile of |answer|"),
        *(Series.of(f"{name} parts", settings.lengths, answers.sizes[name]) for name in "PQ"),
        Series.of("bound for P parts, constant 1", settings.lengths, _printed_bounds(settings, "P"), "bound"),
    )


@claim(
    "P3/proposition-7",
    nature="lemma",
    plain="""With fair labels a signal changes the answer of the noise little; tried for some signals
        only. For L of order d^3 or more an argument covers all.""",
    place="Appendix E, Proposition 7",
    title="The signal changes the answer of the noise weights little",
    quote="with Proposition 6, we have w.h.p over the randomness of U, for all U ... L^{-1/3}",
    quick={**SETTING, "signal": 1.0, "draws": 40},
    full={"lengths": [33, 129, 513, 2049, 4097], "draws": 200},
    rests_on=("P3/lemma-6", "P3/proposition-6"),
)
def signal_changes_little(settings: Settings, seed: int) -> Finding:
    """If the labels are fair coins, independent of the tokens, replacing the activation pattern of the noise
    weights by that of noise and signal changes the answer of the noise weights by at most a constant times
    |x|^2 (K/lambda)^(7/3) tau_0^(-4/3) L^(-1/3), for every signal of norm at most K/lambda.
    """
    lengths = settings.lengths
    changes = [_largest_change(settings, L, seed) for L in lengths]
    fair = float(settings.independent_labels)
    falls = "exponent in L of the change of the answer, P parts, worst signal"
    return Finding(
        hypotheses=(Hypothesis("labels independent of the tokens", "==", 1.0, fair),),
        conclusions=(Conclusion.of_trend(falls, "<=", -1 / 3, lengths, changes),),
        numbers=by_size("change of the answer at L = {}", lengths, changes),
        differs=(f"{2 * settings.d} signals of rank one along the axes instead of every signal",),
        remark="With fair labels the changes average out, although Lemma 6, which the proof uses to count "
        "them, fails. An argument for every signal: the sets of tokens between two hyperplanes have a VC "
        "dimension of order d, so that the worst sum of fair labels over them is of order sqrt(d L).",
    )


def _largest_change(settings: Settings, L: int, seed: int) -> float:
    data = TwoStageData(settings.d, L, u=settings.u, r=settings.r, seed=seed)
    noise = ReluAttention(settings.d, std=settings.tau_0, runs=settings.draws, seed=seed).weights.W
    part = data.sample(1, runs=settings.draws, seed=seed).p
    part = _fair(part, seed) if settings.independent_labels else part
    values = scores(part, noise)[:, 0, 0]  # (runs, L - 1)
    query = part.query[:, 0]
    context = part.context[:, 0]
    most = torch.zeros(settings.draws, dtype=torch.float64)
    for axis in torch.eye(settings.d, dtype=torch.float64):
        pull = settings.signal * (context @ axis) * query.norm(dim=-1, keepdim=True)
        for sign in (1, -1):
            moved = ((values + sign * pull > 0).double() - (values > 0).double()) * values
            most = torch.maximum(most, (part.labels[:, 0] * moved).sum(-1).abs() / L)
    return most.quantile(0.95).item()


@claim(
    "P3/equation-21-repaired",
    plain="The noise answers its mean up to L^(-1/2).",
    sharp="sharp: the mean is exact",
    title="The answer of the noise weights on the prompts of Section 3.1",
    derivation="""Given W and x_L the tokens of a context are independent, so the answer is its mean up to
        Hoeffding's bound. For P parts E y relu(s) = E[y s]/2 + E[y |s|]/2; the second term vanishes,
        since (x, y) and (-x, -y) have the same law, and E[y x] = mu w*. For Q parts the mean is relu(a)/2
        - (relu(a+b) + relu(a-b))/4.""",
    quick={**SETTING, "lengths": [33, 129, 513, 2049], "independent_labels": False},
    sizes=({"d": 16}, {"d": 32}),
    seconds=0.8,
)
def answers_have_a_mean(settings: Settings, seed: int) -> Finding:
    """On the prompts of Section 3.1 the answer of the noise weights is (mu/2) w*'W x_L for P parts, and -(|b|
    - |a|)_+ / 4 with a = z'V x_L, b = zeta'V x_L for Q parts, up to tau_0 |x|^2 sqrt(d log d / L). The first
    is of order tau_0 / sqrt(d), the second of order tau_0 r |x| at most: neither falls with L.
    """
    answers = answers_over_lengths(settings, seed)
    lengths = settings.lengths
    return Finding(
        conclusions=tuple(
            Conclusion.of_trend(f"|answer - mean| over L, {name} parts", "<=", -1 / 3, lengths, distances)
            for name, distances in answers.distances.items()
        ),
        numbers={f"|answer| at the largest L, {name} parts": answers.sizes[name][-1] for name in "PQ"},
    )
