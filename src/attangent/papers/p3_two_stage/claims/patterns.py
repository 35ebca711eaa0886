"""Lemmas 6 and 7: whether signs follow the noise weights, and whether they stay in the second stage."""

import math

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit.claims import Failure, Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Hypothesis, Series
from attangent.audit.registry import claim
from attangent.papers.common.figures import plot
from attangent.papers.p3_two_stage.claims import proofs_of_patterns
from attangent.papers.p3_two_stage.claims.first_stage import ASSUMED, assumption_1
from attangent.papers.p3_two_stage.claims.two_stage_setting import WITHDRAWN, Assumption1
from attangent.papers.p3_two_stage.theory.attention import ReluAttention, scores
from attangent.papers.p3_two_stage.theory.data import PromptPart, TwoStageData


@claim(
    "P3/lemma-6",
    nature="lemma",
    plain="Printed: a signal changes at most L^(2/3) signs. True: copies of a token change together, so"
        " for the Q parts a fixed share of the prompt changes, and for the P parts once L exceeds "
        "d^1.5. The second display holds.",
    failure=Failure(
        cause="P3/lemma-6",
        consequence="Lemma 6 falls for Q parts, and for P parts with L >> d^1.5; Corollaries 2 and 3, "
            "Theorems 1 "
        "and 2 use it",
        first_size="L = 8 with the constant 1, L = 8000 with the constant 10 (Q parts)",
        root="the scores of one prompt are treated as independent",
    ),
    proof=proofs_of_patterns.lemma_6,
    ours=("P parts: L >> d^1.5",),
    erratum=WITHDRAWN,
    place="Appendix E, Lemma 6 (with Corollaries 2 and 3)",
    title="Activation patterns follow the noise weights",
    quote="we have that, w.h.p over the randomness of U and Y, for all U ... K^{4/3} lambda^{-4/3} "
    "tau_0^{-4/3} L^{2/3}",
    quick={
        "d": 16, "lengths": [65, 257, 1025, 4097], "prompts": 20, "tau_0": 1.0, "signal": 1.0,
        "dimensions": [8, 12, 16, 24],
    },
    full={"d": 32, "lengths": [65, 257, 1025, 4097, 16385], "prompts": 40},
    seconds=0.4,
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
    return Finding(
        conclusions=(
            *(_length_trend(settings.lengths, name, counts) for name, counts in flips.items()),
            _dimension_trend(settings, seed),
            Conclusion.of_trend(
                "exponent in L of the change of the answer, P parts, fair labels",
                "<=",
                -1 / 3,
                settings.lengths,
                answers,
                part="second display",
            ),
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
        "tokens: a sign changes for a third of the prompt or not at all.",
    )


def _flips_by_length(settings: Settings, seed: int) -> dict[str, list[float]]:
    """Return how many signs change at each length, mean over prompts, for the P and the Q parts."""
    flips: dict[str, list[float]] = {"P": [], "Q": []}
    for L in settings.lengths:
        for name, (part, U) in parts_and_noise(settings, settings.d, L, seed).items():
            flips[name].append(flips_by_turning(part, U, settings.signal).mean().item())
    return flips


def _length_trend(lengths: list[int], name: str, counts: list[float]) -> Conclusion:
    return Conclusion.of_trend(
        f"exponent in L of the signs changed, {name} parts",
        "<=",
        2 / 3,
        lengths,
        [max(count, 1e-9) for count in counts],
        part=f"{name} parts",
    )


def _dimension_trend(settings: Settings, seed: int) -> Conclusion:
    return Conclusion.of_trend(
        "P parts at L = d^1.5: exponent in d of signs changed / bound",
        "<=",
        0.0,
        settings.dimensions,
        [_at_power(settings, d, 1.5, seed) for d in settings.dimensions],
        claimed=False,
    )


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
    "P3/lemma-7",
    nature="lemma",
    plain="Printed: stage 2 changes few signs. True: it lasts so long that the noise of stage 1 is "
        "forgotten, and half of all signs change.",
    failure=Failure(
        cause="P3/lemma-7",
        consequence="Lemma 7 falls; Theorems 3 and 4 use it",
        first_size="d = 2 for Equation 15 with constants 1; d = 6 for the whole lemma with K = 1/2",
        root="the decay of the old noise over stage 2 is left out",
    ),
    proof=proofs_of_patterns.lemma_7,
    erratum=WITHDRAWN,
    place="Appendix E, Lemma 7, Equation 15 (with Corollaries 4 and 5)",
    title="Activation patterns are preserved in the second stage",
    quote="Since eta_2 << eta_1, ... This implies that additional noise in the second stage is small.",
    quick={
        **ASSUMED, "u": 0.4, "r": 0.04, "dimensions": [16, 32, 64, 128], "prompts": 4,
        "length_of_stage": 1.0,
    },
    full={"dimensions": [16, 32, 64, 128, 192], "prompts": 4},
    seconds=0.5,
    rests_on=("P3/lemma-6", "P3/proposition-5"),
)  # fmt: skip
def patterns_stay(settings: Settings, seed: int) -> Finding:
    """Over the t_2 steps of the second stage at most a constant times L sqrt(eta_2/eta_1) + sqrt(L log d) of
    the L signs of the noise weights' scores change (Equation 15). The whole lemma adds the eps_U of Lemma 6
    for the changes by the signal.
    """
    changed = [changed_shares(settings, d, seed).mean().item() for d in settings.dimensions]
    bounds = [_share_bound(settings, d) for d in settings.dimensions]
    last = settings.dimensions[-1]
    return Finding(
        hypotheses=(
            *assumption_1(settings),
            Hypothesis(
                "eta_2 / eta_1 at the smallest d", "<=", 0.1, rate_ratio(settings, settings.dimensions[0])
            ),
        ),
        conclusions=(
            Conclusion.of_trend(
                "exponent in d of the fraction of signs changed / bound",
                "<=",
                0.0,
                settings.dimensions,
                [share / bound for share, bound in zip(changed, bounds, strict=True)],
                part="Equation 15",
            ),
            Conclusion.of_trend(
                "the same against the whole bound of the lemma, K = 1/2",
                "<=",
                0.0,
                settings.dimensions,
                [
                    share / whole_share(settings, d)
                    for share, d in zip(changed, settings.dimensions, strict=True)
                ],
                part="whole lemma",
            ),
        ),
        numbers={
            **{
                f"1/2 / the whole bound, K = 1/2, d = {d}": 0.5 / whole_share(settings, d)
                for d in (16, 256, 4096)
            },
            "share of signs changed at the largest d": changed[-1],
            "bound with constant 1 at the largest d": bounds[-1],
            "log10 of the fraction of W_(t1) left after stage 2 at the largest d": log_kept(settings, last)
            / math.log(10),
        },
        remark="The noise that stage 2 adds is small compared with tau_0, but the noise of stage 1 has "
        "decayed by exp(-log^2(1/eps)/eps^2) in the meantime. Only fresh noise is left, and half of the "
        "signs change. The proof keeps the total variance at tau_0^2.",
    )


def rate_ratio(settings: Settings, d: int) -> float:
    """Return eta_2 / eta_1 = lambda^2 eps_(V,1)^2 r."""
    scale = Assumption1.of(settings, d)
    return scale.weight_decay**2 * scale.hard_epsilon**2 * scale.r


def _share_bound(settings: Settings, d: int) -> float:
    return math.sqrt(rate_ratio(settings, d)) + math.sqrt(math.log(d) / Assumption1.of(settings, d).L)


def whole_share(settings: Settings, d: int, K: float = 0.5) -> float:
    """Return the bound of the whole lemma over L: that of Equation 15 and eps_U / L."""
    scale = Assumption1.of(settings, d)
    by_signal = (K / (scale.weight_decay * scale.init_std)) ** (4 / 3) * scale.L ** (-1 / 3)
    return by_signal + _share_bound(settings, d)


def log_kept(settings: Settings, d: int) -> float:
    """Return log (1 - eta_2 lambda)^(t_2) for `length_of_stage` times t_2 = log^2(1/eps) / (eta_2 lambda
    eps^2).
    """
    scale = Assumption1.of(settings, d)
    eps = scale.hard_epsilon
    step = settings.rate * rate_ratio(settings, d) * scale.weight_decay
    return math.log1p(-step) * settings.length_of_stage * math.log(1 / eps) ** 2 / (step * eps**2)


def added_variance(settings: Settings, d: int) -> float:
    """Return the variance that stage 2 adds to a noise weight: eta_2^2 tau_xi^2 (1 - k^(2t)) / (1 - k^2)."""
    scale = Assumption1.of(settings, d)
    second = settings.rate * rate_ratio(settings, d)
    second_shrink = 1 - second * scale.weight_decay
    shrink = 1 - settings.rate * scale.weight_decay
    xi = scale.init_std**2 * (1 - shrink**2) / settings.rate**2
    return second**2 * xi * -math.expm1(2 * log_kept(settings, d)) / (1 - second_shrink**2)


def changed_shares(settings: Settings, d: int, seed: int) -> Tensor:
    """Return the fraction of signs of P tokens' scores that differ between t_1 and the end of stage 2, by
    prompt.

        U x_L at t_1 is Gaussian. By Proposition 5, at the end it is the rest of that vector plus fresh noise.
    """
    scale = Assumption1.of(settings, d)
    rng = generator(seed, f"lemma 7, d = {d}")
    shape = (settings.prompts, d)
    tokens = scale.data().sample(settings.prompts, seed=rng).p.context
    before, fresh = (torch.randn(*shape, generator=rng, dtype=torch.float64) for _ in range(2))
    before = scale.init_std * before
    after = math.exp(log_kept(settings, d)) * before + math.sqrt(added_variance(settings, d)) * fresh
    signs = [(tokens @ vector[..., None]) > 0 for vector in (before, after)]
    return (signs[0] != signs[1]).double().mean((-1, -2))


@claim(
    "P3/lemma-6-repaired",
    nature="lemma",
    plain="A signal S changes a share of order S/(tau_0 sqrt(d)) of a P prompt's signs.",
    sharp="sharp in order: some signal changes a third of rho L; the factor 2.87 is not",
    erratum=WITHDRAWN,
    repairs="P3/lemma-6",
    place="ours",
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
    return Finding(
        conclusions=(
            Conclusion(
                "largest share of signs changed / (2.87 rho + sqrt(d/L))",
                "<=",
                1.0,
                (worst / (2.87 * rho + spread)).max().item(),
            ),
            Conclusion("mean share of signs changed / (rho/3)", ">=", 1.0, (3 * worst / rho).mean().item()),
        ),
        numbers={
            "share of signs changed by the worst of 2d signals": worst.mean().item(),
            "rho": rho.mean().item(),
            "sqrt(2/pi) S/tau_0, the bound without the factor 1/sqrt(d)": math.sqrt(2 / math.pi)
            * settings.signal
            / settings.tau_0,
        },
    )


@claim(
    "P3/lemma-7-repaired",
    nature="lemma",
    plain="The share of changed signs is arccos(rho)/pi, a half after the printed t_2.",
    sharp="sharp: equality in expectation",
    erratum=WITHDRAWN,
    repairs="P3/lemma-7",
    place="ours",
    title="Signs over the second stage",
    derivation="""By Proposition 5 a score is k a + b with independent normal a, b of standard deviations
        tau_0 |x||x_L| and s |x||x_L|. Two normal variables of correlation rho differ in sign with
        probability arccos(rho)/pi. s^2 <= 2 tau_0^2 eta_2/eta_1, so tan(arccos rho) = s/(k tau_0) <= e^(t
        eta_2 lambda) sqrt(2 eta_2/eta_1) up to rounding of k.""",
    quick={**ASSUMED, "u": 0.4, "r": 0.04, "prompts": 400, "power": 1.5, "d": 16},
    sizes=({"d": 16}, {"d": 32}),
    seconds=0.5,
)
def signs_over_the_second_stage(settings: Settings, seed: int) -> Finding:
    """After t steps of stage 2 the expected fraction of changed signs is arccos(rho)/pi with rho = k tau_0 /
    sqrt(k^2 tau_0^2 + s^2), where k = (1 - eta_2 lambda)^t and s^2 is the variance that stage 2 adds. It is
    of order sqrt(eta_2/eta_1) for t <= 1/(eta_2 lambda), and 1/2 after the t_2 of the theorem.
    """
    scale = Assumption1.of(settings, settings.d)
    eps = scale.hard_epsilon
    one_decay = eps**2 / math.log(1 / eps) ** 2
    lengths = {"1/(eta_2 lambda) steps": one_decay, "t_2 steps": 1.0}
    lines = [
        line
        for name, length in lengths.items()
        for line in _share_lines(settings | {"length_of_stage": length}, name, seed)
    ]
    return Finding(conclusions=tuple(lines))


def _share_lines(settings: Settings, name: str, seed: int) -> tuple[Conclusion, Conclusion]:
    """Compare the measured share with arccos(rho)/pi, in standard errors over prompts and in relative
    size.
    """
    d = settings.d
    remaining = math.exp(log_kept(settings, d)) * Assumption1.of(settings, d).init_std
    expected = _share(remaining, math.sqrt(added_variance(settings, d)))
    shares = changed_shares(settings, d, seed)
    error = (shares.std() / math.sqrt(len(shares))).item()
    distance = abs(shares.mean().item() - expected)
    return (
        Conclusion(f"distance to arccos(rho)/pi after {name}, standard errors", "<=", 4.0, distance / error),
        Conclusion(f"the same, relative to arccos(rho)/pi, after {name}", "<=", 0.15, distance / expected),
    )


def _share(remaining: float, added: float) -> float:
    return math.atan2(added, remaining) / math.pi
