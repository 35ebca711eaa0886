"""Lemma 6: whether signs follow the noise weights."""

import math

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit import Conclusion, Failure, Figure, Finding, Series, Settings, claim
from attangent.papers.common.figures import plot
from attangent.papers.common.sizes import no_growth
from attangent.papers.p3_two_stage.claims import proofs_of_patterns
from attangent.papers.p3_two_stage.theory.attention import ReluAttention, scores
from attangent.papers.p3_two_stage.theory.data import PromptPart, TwoStageData


@claim(
    "P3/lemma-6",
    plain="""Printed: a signal changes at most L^(2/3) signs. True: in Q parts all copies of a token
        change together, at least about a quarter of the prompt; in P parts a share of order 1/sqrt(d),
        which is more for L above d^1.5. The second display holds for fair labels.""",
    failure=Failure(
        cause="P3/lemma-6",
        consequence="Lemma 6 falls for Q parts, and for P parts with L >> d^1.5; Corollaries 2 and 3, "
            "Proposition 7, Lemma 7 and so Theorems 1 to 4 use it",
        first_size="L = 9 with the constant 1, L = 8001 with the constant 10, by the proof (Q parts)",
        root="the scores of one prompt are treated as independent",
    ),
    proof=proofs_of_patterns.lemma_6,
    ours=("P parts: L >> d^1.5",),
    place="Appendix E, Lemma 6 (with Corollaries 2 and 3)",
    title="Activation patterns follow the noise weights",
    quote="""we have that, w.h.p over the randomness of U and Y, for all U ... K^{4/3} lambda^{-4/3}
        tau_0^{-4/3} L^{2/3}""",
    quick={
        "d": 16, "lengths": [65, 257, 1025, 4097], "prompts": 20, "tau_0": 1.0, "signal": 1.0,
        "dimensions": [8, 12, 16, 24],
    },
    full={"d": 32, "lengths": [65, 257, 1025, 4097, 16385], "prompts": 40},
    rests_on=("P3/proposition-4", "P3/assumption-2"),
)  # fmt: skip
def patterns_follow_noise(settings: Settings, seed: int) -> Finding:
    """With high probability over noise weights of standard deviation tau_0, every signal of norm at most
    K/lambda changes at most a constant times (K / (lambda tau_0))^(4/3) L^(2/3) of the L signs of a prompt.
    With labels that are fair coins it thereby changes the answer of the signal weights by at most L^(-1/3),
    up to the same constants (the second display).
    """
    flips = _flips_by_length(settings, seed)
    answers = [max(answer_change(settings, L, seed), 1e-12 / L) for L in settings.lengths]
    bound = [_bound(settings, L) for L in settings.lengths]
    by_dimension = [_at_power(settings, d, 1.5, seed) for d in settings.dimensions]
    growth = "P parts at L = d^1.5: exponent in d of signs changed / bound"
    change = "exponent in L of the change of the answer, P parts, fair labels"
    return Finding(
        conclusions=(
            *(_length_trend(settings.lengths, name, counts) for name, counts in flips.items()),
            no_growth(growth, settings.dimensions, by_dimension, claimed=False),
            Conclusion.of_trend(change, "<=", -1 / 3, settings.lengths, answers, part="second display"),
        ),
        numbers={
            f"signs changed / bound with constant 1 at the largest L, {name}": counts[-1] / bound[-1]
            for name, counts in flips.items()
        },
        figures=(_flips_figure(settings.lengths, flips, bound),),
        remark="The lemma is taken from networks with L independent neurons. Here the scores of a prompt "
        "are X'(U x_L), L projections of one vector in R^d. Turning it by a fixed angle changes a fixed "
        "fraction of the signs, about K / (pi lambda tau_0 sqrt(d)), for prompts of any length. For the P "
        "parts that exceeds the bound only if L is well above d^1.5. A hard part shows three different "
        "tokens: a sign changes for at least about a quarter of the prompt or not at all.",
    )


def _flips_by_length(settings: Settings, seed: int) -> dict[str, list[float]]:
    """Return how many signs change at each length, mean over prompts, for the P and the Q parts."""
    flips: dict[str, list[float]] = {"P": [], "Q": []}
    for L in settings.lengths:
        for name, (part, U) in parts_and_noise(settings, settings.d, L, seed).items():
            flips[name].append(flips_by_turning(part, U, settings.signal).mean().item())
    return flips


def _length_trend(lengths: list[int], name: str, counts: list[float]) -> Conclusion:
    part = f"{name} parts"
    changed = [max(count, 1e-9) for count in counts]
    line = f"exponent in L of the signs changed, {part}"
    return Conclusion.of_trend(line, "<=", 2 / 3, lengths, changed, part=part)


def _flips_figure(lengths: list[int], flips: dict[str, list[float]], bound: list[float]) -> Figure:
    return plot(
        "Signs changed by a signal of norm K/lambda",
        ("L", "signs changed"),
        *(Series.of(f"{name} parts", lengths, counts) for name, counts in flips.items()),
        Series.of("L^(2/3), constant 1", lengths, bound, "bound"),
    )


def parts_and_noise(settings: Settings, d: int, L: int, seed: int) -> dict[str, tuple[PromptPart, Tensor]]:
    """Return the P and Q parts of prompts; each prompt is a separate run with its own noise weights."""
    prompts = TwoStageData(d, L, seed=seed).sample(settings.prompts, seed=seed)
    noise = ReluAttention(d, std=settings.tau_0, runs=settings.prompts, seed=seed).weights
    return {"P": (_single(prompts.p), noise.W), "Q": (_single(prompts.q), noise.V)}


def answer_change(settings: Settings, L: int, seed: int) -> float:
    """Return the root mean square over prompts of (1/L) sum_i y_i (1(x_i'U x_L) - 1(x_i'U~ x_L)) x_i'S x_L.

    S turns U~ x_L along the first axis, and the labels y are fair coins.
    """
    part, noise = parts_and_noise(settings, settings.d, L, seed)["P"]
    query = part.query[:, 0]
    target = (noise[:, 0] @ query[..., None])[..., 0]
    side = torch.zeros_like(target)
    side[:, 0] = settings.signal * query.norm(dim=-1)
    before, pull = ((part.context[:, 0] @ vector[..., None])[..., 0] for vector in (target, side))
    turned = (before + pull > 0).double() - (before > 0).double()
    coins = torch.randint(0, 2, pull.shape, generator=generator(seed, f"coins, L = {L}")).double() * 2 - 1
    return ((coins * turned * pull).sum(-1) / L).square().mean().sqrt().item()


def _bound(settings: Settings, L: int) -> float:
    return (settings.signal / settings.tau_0) ** (4 / 3) * L ** (2 / 3)


def _at_power(settings: Settings, d: int, power: float, seed: int) -> float:
    """Return signs of P parts changed / bound at L = d^power."""
    L = round(d**power) + 1
    part, U = parts_and_noise(settings, d, L, seed)["P"]
    return max(flips_by_turning(part, U, settings.signal).mean().item(), 1e-9) / _bound(settings, L)


def _single(part: PromptPart) -> PromptPart:
    """Return every prompt as a separate run."""
    return PromptPart(
        part.context[:, None], part.labels[:, None], part.query[:, None], part.shown[:, None], part.L
    )


def flips_by_turning(part: PromptPart, noise: Tensor, norm: float) -> Tensor:
    """Return how many of the L - 1 signs change when a rank-one signal of this norm turns U x_L sideways.

    The signal is norm s x_L'/|x_L| with s orthogonal to U x_L. Among the 2d directions s and -s along the
    axes, the one with the most changes counts.
    """
    query = part.query[:, 0]
    target = (noise[:, 0] @ query[..., None])[..., 0]
    before = scores(part, noise)[:, 0, 0] > 0
    counts = part.labels[:, 0].abs()
    most = torch.zeros(len(query), dtype=torch.float64)
    for axis in torch.eye(query.shape[-1], dtype=torch.float64):
        along = (target @ axis / target.square().sum(-1))[:, None] * target
        side = axis - along
        side = side / side.norm(dim=-1, keepdim=True) * query.norm(dim=-1, keepdim=True)
        for sign in (1, -1):
            turned = target + sign * norm * side
            after = (part.context[:, 0] @ turned[..., None])[..., 0] > 0
            most = torch.maximum(most, ((before != after) * counts).sum(-1))
    return most


@claim(
    "P3/lemma-6-repaired",
    plain="A signal S changes a share of order S/(tau_0 sqrt(d)) of a P prompt's signs.",
    sharp="sharp in order: some signal changes a third of rho L; the factor 2.87 is not",
    title="Signs that a signal can change",
    derivation="""The signs of x'v and x'(v + t) differ only if |x'a| <= rho |x'b| for orthonormal a along v,
        b in the plane of v and t, and rho = |t|/(|v| - |t|). A P token is e + y gamma_0 w* with e ~ N(0,
        I/d). For each y the density of e'a is at most sqrt(d/(2 pi)), and E|x'b| <= gamma_0 (1 +
        sqrt(2/pi)), so that the probability is at most 4 rho (1 + sqrt(2/pi))/sqrt(2 pi), below 2.87 rho.
        The sets of tokens between two hyperplanes have a VC dimension of order d, so the worst t adds
        O(sqrt(dL)).""",
    quick={"d": 16, "L": 4097, "prompts": 8, "tau_0": 1.0, "signal": 0.3},
    sizes=({"d": 16}, {"d": 64}),
    seconds=0.6,
)
def signs_within_reach(settings: Settings, seed: int) -> Finding:
    """Let v = U x_L be the noise weights applied to the query, with |v| near tau_0 sqrt(d) |x_L|. Every
    signal of norm at most S changes at most 2.87 rho L + O(sqrt(dL)) signs of a P prompt, rho = S|x_L| /
    (|v| - S|x_L|): of order S L/(tau_0 sqrt(d)), and some signal changes a third of rho L. Copies of a token
    change sign together.
    """
    part, U = parts_and_noise(settings, settings.d, settings.L, seed)["P"]
    query = part.query[:, 0]
    sizes = (U[:, 0] @ query[..., None])[..., 0].norm(dim=-1)
    reach = settings.signal * query.norm(dim=-1)
    rho = reach / (sizes - reach)
    worst = flips_by_turning(part, U, settings.signal) / settings.L
    spread = math.sqrt(settings.d / settings.L)
    crude = math.sqrt(2 / math.pi) * settings.signal / settings.tau_0
    largest_share = (worst / (2.87 * rho + spread)).max().item()
    return Finding(
        conclusions=(
            Conclusion("largest share of signs changed / (2.87 rho + sqrt(d/L))", "<=", 1.0, largest_share),
            Conclusion("mean share of signs changed / (rho/3)", ">=", 1.0, (3 * worst / rho).mean().item()),
        ),
        numbers={
            "share of signs changed by the worst of 2d signals": worst.mean().item(),
            "rho": rho.mean().item(),
            "sqrt(2/pi) S/tau_0, the bound without the factor 1/sqrt(d)": crude,
        },
    )
