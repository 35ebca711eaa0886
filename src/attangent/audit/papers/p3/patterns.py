"""Lemma 6 and Proposition 6: whether signs follow the noise weights, and how small the noise answers."""

import math

import torch
from torch import Tensor

from attangent._random import generator
from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Hypothesis, Series
from attangent.audit.papers.p3.two_stage_setting import exponent
from attangent.audit.registry import claim
from attangent.stages import ReluAttention, TwoStageData
from attangent.stages.theory.attention import attend, scores
from attangent.stages.theory.data import Part


@claim(
    "P3/lemma-6",
    place="Appendix E, Lemma 6 (with Corollaries 2-5)",
    title="Activation patterns follow the noise weights",
    statement="""With high probability over noise weights of standard deviation tau_0, every signal of norm
        at most K/lambda changes at most a constant times (K / (lambda tau_0))^(4/3) L^(2/3) of the L signs
        of a prompt.""",
    quick={"d": 16, "lengths": [65, 257, 1025, 4097], "prompts": 20, "tau_0": 1.0, "signal": 1.0},
    full={"d": 32, "lengths": [65, 257, 1025, 4097, 16385], "prompts": 40},
    seconds=0.3,
)
def patterns_follow_noise(settings: Settings, seed: int) -> Finding:
    flips = {"P": [], "Q": []}
    for L in settings.lengths:
        data = TwoStageData(settings.d, L, seed=seed)
        prompts = data.sample(settings.prompts, seed=seed)
        noise = ReluAttention(settings.d, std=settings.tau_0, runs=settings.prompts, seed=seed).weights
        for name, part, U in (("P", _single(prompts.p), noise.W), ("Q", _single(prompts.q), noise.V)):
            flips[name].append(_flips_by_turning(part, U, settings.signal).mean().item())
    bound = [(settings.signal / settings.tau_0) ** (4 / 3) * L ** (2 / 3) for L in settings.lengths]
    return Finding(
        conclusions=tuple(
            Conclusion(
                f"growth exponent in L of the signs changed, {name} parts",
                "<=",
                2 / 3 + 0.05,
                exponent(settings.lengths, flips[name]),
            )
            for name in flips
        ),
        numbers={
            f"signs changed / bound with constant 1 at the largest L, {name}": flips[name][-1] / bound[-1]
            for name in flips
        },
        figures=(
            Figure(
                "Signs changed by a signal of norm K/lambda",
                "L",
                "signs changed",
                (
                    Series.of("P parts", settings.lengths, flips["P"]),
                    Series.of("Q parts", settings.lengths, flips["Q"]),
                    Series.of("L^(2/3), constant 1", settings.lengths, bound, "bound"),
                ),
                log_x=True,
                log_y=True,
            ),
        ),
        remark="The scores of a prompt are X'(U x_L): L projections of one vector in R^d, not L independent "
        "ones, so that turning that vector by a fixed angle changes a fixed share of the signs, "
        "however long the prompt. A hard part shows three different tokens: a sign changes for a "
        "third of the prompt or not at all.",
    )


def _single(part: Part) -> Part:
    """Every prompt as a run of its own, with noise weights of its own."""
    return Part(part.context[:, None], part.labels[:, None], part.query[:, None], part.shown[:, None], part.L)


def _flips_by_turning(part: Part, noise: Tensor, norm: float) -> Tensor:
    """How many of the L - 1 signs change when a rank-one signal of this norm turns U x_L sideways.

    The signal is norm s x_L'/|x_L| with s orthogonal to U x_L; of the 2d directions s and -s along the axes
    the one that changes most counts.
    """
    query = part.query[:, 0]
    looked_for = (noise[:, 0] @ query[..., None])[..., 0]
    before = scores(part, noise)[:, 0, 0] > 0
    counts = part.labels[:, 0].abs()
    most = torch.zeros(len(query), dtype=torch.float64)
    for axis in torch.eye(query.shape[-1], dtype=torch.float64):
        along = (looked_for @ axis / looked_for.square().sum(-1))[:, None] * looked_for
        side = axis - along
        side = side / side.norm(dim=-1, keepdim=True) * query.norm(dim=-1, keepdim=True)
        for sign in (1, -1):
            turned = looked_for + sign * norm * side
            after = (part.context[:, 0] @ turned[..., None])[..., 0] > 0
            most = torch.maximum(most, ((before != after) * counts).sum(-1))
    return most


@claim(
    "P3/proposition-6",
    place="Appendix E, Proposition 6 (with 7 and Corollaries 6-7)",
    title="What the noise weights answer is small",
    statement="""The answer of the noise weights alone is at most a constant times tau_0 |x|^2 sqrt(d log d
        / L) with high probability; Corollaries 6 and 7 use it for the prompts of Section 3.1.""",
    quick={
        "d": 16,
        "lengths": [33, 129, 513, 1025],
        "draws": 200,
        "tau_0": 0.6,
        "u": 2.0,
        "r": 1.0,
        "labels": "data",
    },
    full={"lengths": [33, 129, 513, 2049, 4097], "draws": 300},
    seconds=0.6,
)
def noise_answers_little(settings: Settings, seed: int) -> Finding:
    drawn = {labels: _noise_answers(settings, seed, labels) for labels in ("data", "independent")}
    judged = drawn[settings.labels]
    return Finding(
        hypotheses=(
            Hypothesis(
                "labels independent of the tokens, as Lemma 6 asks",
                "==",
                1.0,
                float(settings.labels == "independent"),
            ),
        ),
        conclusions=(
            Conclusion("growth exponent in L, P parts", "<=", -0.4, exponent(settings.lengths, judged["P"])),
            Conclusion("growth exponent in L, Q parts", "<=", -0.4, exponent(settings.lengths, judged["Q"])),
            *(
                Conclusion(
                    f"growth exponent in L with independent labels, {name} parts",
                    "<=",
                    -0.4,
                    exponent(settings.lengths, drawn["independent"][name]),
                    claimed=False,
                )
                for name in ("P", "Q")
            ),
        ),
        numbers={
            f"answer / bound with constant 1 at the largest L, {name}": judged[name][-1]
            / _bound(settings, name)
            for name in ("P", "Q")
        },
        figures=(
            Figure(
                "What the noise weights answer",
                "L",
                "95 % quantile of |answer|",
                tuple(
                    Series.of(f"{name} parts, {labels} labels", settings.lengths, drawn[labels][name])
                    for labels in drawn
                    for name in ("P", "Q")
                ),
                log_x=True,
                log_y=True,
            ),
        ),
        remark="The proof treats the labels as fair coins beside the tokens. In the prompts of Section 3.1 "
        "a token decides its label, the mean of y_i relu(x_i'U x_L) is not 0, and a longer prompt "
        "does not average it away.",
    )


def _noise_answers(settings: Settings, seed: int, labels: str) -> dict[str, list[float]]:
    """The 95 % quantile of |answer| over noise weights and prompts, for each L and both parts."""
    found: dict[str, list[float]] = {"P": [], "Q": []}
    one = torch.ones(1, dtype=torch.float64)
    for L in settings.lengths:
        data = TwoStageData(settings.d, L, u=settings.u, r=settings.r, seed=seed)
        noise = ReluAttention(settings.d, std=settings.tau_0, runs=settings.draws, seed=seed).weights
        p = _p_part(data, settings.draws, seed)
        q = data.sample_q(1, runs=settings.draws, seed=seed).q
        if labels == "independent":
            p, q = _fair(p, seed), _fair(q, seed)
        for name, part, U in (("P", p, noise.W), ("Q", q, noise.V)):
            found[name].append(attend(part, U, one).abs().quantile(0.95).item())
    return found


def _p_part(data: TwoStageData, draws: int, seed: int) -> Part:
    return data.sample(1, runs=draws, seed=seed).p


def _fair(part: Part, seed: int) -> Part:
    """The same tokens with labels that are fair coins; gathered tokens get the sum of theirs."""
    rng = generator(seed, "fair labels")
    counts = part.labels.abs()
    heads = torch.binomial(counts, torch.full_like(counts, 0.5), generator=rng)
    return Part(part.context, 2 * heads - counts, part.query, part.shown, part.L)


def _bound(settings: Settings, name: str) -> float:
    norm = 1 + 1 / math.sqrt(settings.d) if name == "P" else settings.u + settings.r
    return settings.tau_0 * norm**2 * math.sqrt(settings.d * math.log(settings.d) / settings.lengths[-1])
