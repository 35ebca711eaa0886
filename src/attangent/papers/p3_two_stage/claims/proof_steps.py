"""Steps of the proofs: counts of active tokens, and the optimum W*."""

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from attangent.audit import Conclusion, Failure, Finding, Hypothesis, Settings, claim
from attangent.papers.common.sizes import by_size, no_growth, ratios
from attangent.papers.p3_two_stage.claims import proofs_of_patterns
from attangent.papers.p3_two_stage.claims.first_stage import ASSUMED, assumption_1
from attangent.papers.p3_two_stage.claims.norms import share_above
from attangent.papers.p3_two_stage.claims.two_stage_setting import Assumption1, easy_slope, signal_norm
from attangent.papers.p3_two_stage.theory.attention import ReluAttention, scores
from attangent.papers.p3_two_stage.theory.data import TwoStageData, TwoStagePrompts

COUNTED = {**ASSUMED, "dimensions": [8, 16, 24, 40], "prompts": 10, "runs": 2}


@claim(
    "P3/activation-count",
    nature="proof step",
    plain="""Printed: at most sqrt(log d) tokens are active. True: half of them on average, since
        Hoeffding's inequality bounds the distance to the mean.""",
    failure=Failure(
        cause="P3/activation-count",
        consequence="the bound drawn from Equation 20, Equation 23 and term B in G.2 fall; Theorems 1, 2 and "
        "4 use them",
        first_size="d = 2 with the constant 1, d = 5 with the constant 10 (L = d^2)",
        root="Hoeffding's inequality is applied without the mean",
    ),
    proof=proofs_of_patterns.active_tokens,
    place="Appendices F.1 (after Equation 20), F.2 (before Equation 23) and G.2 (term B)",
    title="How many tokens are active",
    quote="then using Hoeffding's inequality in Lemma 1 ... ||1(X_1^T W_t x_{L,1})||_1 <~ sqrt(log d)",
    quick=COUNTED,
    full={"dimensions": [8, 16, 32, 64], "prompts": 40},
    rests_on=("P3/lemma-6",),
)
def active_tokens(settings: Settings, seed: int) -> Finding:
    """With probability 1 - 1/d at most a constant times sqrt(log d) of the L scores x_i'W x_L of the noise
    weights are positive.
    """
    dimensions = settings.dimensions
    shares = [active_counts(settings, d, seed).mean().item() for d in dimensions]
    counts = [share * Assumption1.of(settings, d).L for share, d in zip(shares, dimensions, strict=True)]
    roots = [math.sqrt(math.log(d)) for d in dimensions]
    name = "exponent in d of (active tokens) / sqrt(log d)"
    return Finding(
        hypotheses=assumption_1(settings),
        conclusions=(no_growth(name, dimensions, ratios(counts, roots)),),
        numbers={"fraction of active tokens at the largest d": shares[-1], "sqrt(log d)": roots[-1]},
        remark="Hoeffding's inequality bounds the distance of a sum to its mean. The proof takes 0 for the "
        "mean of these L Bernoulli variables, which is L/2.",
    )


def active_counts(settings: Settings, d: int, seed: int) -> Tensor:
    """Return the fraction of P tokens whose score under the noise weights is positive (runs, prompts)."""
    prompts, W = _noise_and_prompts(settings, d, seed)
    return (scores(prompts.p, W)[:, :, 0] > 0).double().mean(-1)


def _noise_and_prompts(settings: Settings, d: int, seed: int) -> tuple[TwoStagePrompts, Tensor]:
    scale = Assumption1.of(settings, d)
    prompts = scale.data().sample(settings.prompts, runs=settings.runs, seed=seed)
    return prompts, ReluAttention(d, std=scale.init_std, runs=settings.runs, seed=seed).weights.W


@claim(
    "P3/equation-23",
    nature="proof step",
    plain="""Printed: the answer at the optimum W* is at most sqrt(d) log(d) eps_W / L, which tends to 0
        for L above d^1.5. True: it grows like log(1/eps), as it must to be right; the loss at W* is small
        nevertheless.""",
    failure=Failure(
        cause="P3/activation-count",
        consequence="the proof of Theorem 2 (b.2) falls at this step",
        first_size="in the limit only: d = 10^8.5 with L = d^2, K = 1/2 and the constant 1",
    ),
    proof=proofs_of_patterns.equation_23,
    ours=("L above d^1.5",),
    place="Appendix F.2, Equation 23 and the loss at W* after it",
    title="The answer and the loss at the optimum W*",
    quote="N_{W_t}(W*; X_1, Y) <~ sqrt(d) log d / L eps_W",
    quick=COUNTED,
    full={"dimensions": [8, 16, 32, 64], "prompts": 40},
    rests_on=("P3/activation-count", "P3/lemma-6"),
)
def answer_at_the_optimum(settings: Settings, seed: int) -> Finding:
    """With W* = d log(1/eps) w* w*' and the activation pattern of the noise weights, (23) the answer is at
    most a constant times sqrt(d) log(d) eps_W / L, which tends to 0. The loss K1(W*) is at most eps_(W,1) +
    sqrt(d) log(d) eps_W / L, up to constants.
    """
    optima = [optimum(settings, d, seed) for d in settings.dimensions]
    bounds = [printed_answer(settings, d, seed) for d in settings.dimensions]
    answers = [answer / bound for (answer, _, _), bound in zip(optima, bounds, strict=True)]
    losses = [loss / (eps + bound) for (_, loss, eps), bound in zip(optima, bounds, strict=True)]
    d = settings.dimensions
    return Finding(
        hypotheses=assumption_1(settings),
        conclusions=(
            no_growth("(23) exponent in d of the mean answer at W* / bound", d, answers, part="answer"),
            no_growth("exponent in d of K1(W*) / (eps_(W,1) + bound of (23))", d, losses, part="loss"),
        ),
        numbers={
            "answer at W*, largest d": optima[-1][0],
            "bound of (23) with the measured K, largest d": bounds[-1],
            "K1(W*), largest d": optima[-1][1],
            "eps_(W,1), largest d": optima[-1][2],
        },
        remark="To be right the answer has to grow, and it does, like log(1/eps). (23) multiplies a score "
        "by a count of active tokens that is too small by a factor of about L^(1/3), eps_W included. Its "
        "bound tends to 0 only for L above d^1.5; here L = d^2. K is the largest gradient norm at the start. "
        "With K = 1/2 the printed bound itself grows up to d = 10^6 and is below the answer from d = 10^8.5 "
        "on. An answer near 0 would have the loss log 2, which the next line drops; the loss at W* is "
        "small nevertheless.",
    )


def printed_answer(settings: Settings, d: int, seed: int) -> float:
    """Return sqrt(d) log(d) eps_W / L, with the largest gradient over W at the start for K."""
    scale = Assumption1.of(settings, d)
    prompts = scale.data().sample(settings.prompts, runs=settings.runs, seed=seed)
    model = ReluAttention(d, std=scale.init_std, runs=settings.runs, seed=seed)
    K = signal_norm(model.gradient(prompts).W).max().item()
    eps_W = (K / (scale.weight_decay * scale.init_std)) ** (4 / 3) * scale.L ** (2 / 3)
    return math.sqrt(d) * math.log(d) * eps_W / scale.L


def optimum(settings: Settings, d: int, seed: int) -> tuple[float, float, float]:
    """Return the mean answer y_L N_(W~)(W*), its mean loss, and eps_(W,1)."""
    scale = Assumption1.of(settings, d)
    eps = scale.easy_epsilon
    prompts, W = _noise_and_prompts(settings, d, seed)
    direction = scale.data().w_star
    score = d * math.log(1 / eps) * (prompts.p.context @ direction) * (prompts.p.query @ direction)[..., None]
    active = scores(prompts.p, W)[:, :, 0] > 0
    answers = prompts.answers * (prompts.p.labels * active * score).sum(-1) / scale.L
    return answers.mean().item(), softplus(-answers).mean().item(), eps


def expected_optimum(d: int, eps: float) -> float:
    """Return d log(1/eps) mu^2 / 2, the mean answer at W* in long prompts."""
    return d * math.log(1 / eps) * easy_slope(d) ** 2 / 2


@claim(
    "P3/definition-5",
    nature="proof step",
    plain="""Printed: the number of telling tokens is close to its mean. True: its mean is right, but it
        is 0 in most draws and at least about a quarter of the prompt in the others.""",
    failure=Failure(
        cause="P3/definition-5",
        consequence="the proof of Theorem 3 falls at this step",
        first_size="d = 15 at r/u = 1/5, L = d^2, with the printed constant; from d = 49 an empty set is "
        "outside too",
        root="Hoeffding's inequality is applied to scores that are not independent",
    ),
    proof=proofs_of_patterns.definition_5,
    place="Appendix G.1, Definition 5 and the bound on |H_1| after it",
    title="The number of tokens that tell z - zeta, z and z + zeta apart",
    quote="""with probability at least 1 - delta, ||H_1| - E[|H_1|]| <= sqrt(1/2 L log 2/delta) <~ sqrt(L
        log d)""",
    quick={"lengths": [1025, 4097, 16385, 65537], "u": 1.0, "r": 0.2, "draws": 4000, "constant": 2.0},
    full={"draws": 40_000},
)
def telling_tokens(settings: Settings, seed: int) -> Finding:
    """The number of tokens with x_i'V(z - zeta) >= 0, x_i'V z >= 0 and x_i'V(z + zeta) < 0 has mean r L / (2
    pi u) and, with probability 1 - 1/d, is within a constant times sqrt(L log d) of it.
    """
    shares = {L: telling_shares(settings, L, seed) for L in settings.lengths}
    mean = settings.r / (2 * math.pi * settings.u)
    off = []
    for L, share in shares.items():
        allowed = settings.constant * math.sqrt(0.5 * math.log(L) / L)
        off.append(((share - mean).abs() > allowed).double().mean().item())
    roots = [math.sqrt(L) for L in shares]
    expected = [max(root * share, 1e-9) for root, share in zip(roots, off, strict=True)]
    distance = abs(shares[settings.lengths[-1]].mean().item() / mean - 1)
    outside = "exponent in d = sqrt(L) of d P(outside); d P(outside) <= 1"
    return Finding(
        hypotheses=(Hypothesis("r / u", "<=", 0.2, settings.r / settings.u),),
        conclusions=(
            Conclusion("relative distance of the mean to r L / (2 pi u)", "<=", 0.2, distance, part="mean"),
            no_growth(outside, roots, expected, part="concentration"),
        ),
        numbers=by_size("P(outside) at L = {}", shares, off),
        remark="X_2 has three different columns, and one V serves them all. The number is 0 in most draws "
        "and at least about a quarter of the prompt in the others. Its mean is right; it does not "
        "concentrate.",
    )


def telling_shares(settings: Settings, L: int, seed: int) -> Tensor:
    """Return |H_1| / L in the plane of z and zeta (draws,)."""
    data = TwoStageData(2, L, u=settings.u, r=settings.r)
    counts = data.sample_q(1, runs=settings.draws, seed=seed).counts[:, 0]
    V = ReluAttention(2, std=1.0, runs=settings.draws, seed=seed).weights.V[:, 0]
    z, plus, minus = (data.prototypes @ V @ data.prototypes.T).unbind(-1)  # (draws, token) for each query
    return (counts * ((minus >= 0) & (z >= 0) & (plus < 0))).sum(-1) / L


@claim(
    "P3/activation-count-repaired",
    nature="proof step",
    plain="Half of the P tokens are active, up to sqrt(L log(2d)/2).",
    sharp="sharp in order: the standard deviation is sqrt(L)/2",
    title="How many tokens are active",
    derivation="""Given W and x_L the P tokens are independent, and x and -x have the same law, so each is
        active with probability 1/2. Hoeffding's inequality for L variables in [0, 1] gives the rest.""",
    quick={**COUNTED, "prompts": 30},
    sizes=({"d": 8}, {"d": 24}),
)
def half_the_tokens_are_active(settings: Settings, seed: int) -> Finding:
    """With probability 1 - 1/d the number of active P tokens is L/2 up to sqrt(L log(2d)/2)."""
    L = Assumption1.of(settings, settings.d).L
    distance = (active_counts(settings, settings.d, seed) - 0.5).abs() * (L - 1)
    allowed = math.sqrt(L * math.log(2 * settings.d) / 2)
    error = 3 * math.sqrt(1 / settings.d / distance.numel())
    return Finding(
        conclusions=(share_above("outside", distance, allowed, 1 / settings.d + error),),
        numbers={"largest distance to L/2 / allowed": distance.max().item() / allowed},
    )


@claim(
    "P3/equation-23-repaired",
    plain="The answer at W* is 1.62 log(1/eps), and the loss of order eps^.899 / log(1/eps).",
    sharp="sharp: the loss has this asymptotic value in long prompts",
    title="The answer at the optimum W*",
    derivation="""E[y x 1(x'W x_L > 0)] = mu w*/2 for any W (see Theorem 2 as repaired), so the mean over
        contexts is d log(1/eps) (mu/2) w*'x_L, and E[y_L w*'x_L] = mu. Since |w*'x_L| = gamma_0 (1 + |g|)
        with g standard normal, the margin of a prompt is c log(1/eps) (1 + |g|), at least c log(1/eps) with
        c = (1 + sqrt(2/pi))/2 = .899. E exp(-a|g|) = erfcx(a/sqrt(2)), which is sqrt(2/pi)/a for large a.""",
    quick={**COUNTED, "prompts": 60, "least_eps": 1e-40},
    sizes=({"d": 16}, {"d": 32}),
)
def answer_grows_at_the_optimum(settings: Settings, seed: int) -> Finding:
    """The mean answer y_L N(W*) at W* = d log(1/eps) w* w*' is (1 + sqrt(2/pi))^2/2 log(1/eps), about 1.62
    log(1/eps). In long prompts K1(W*) is of order eps^c / log(1/eps) with c = (1 + sqrt(2/pi))/2, about
    .899: more than eps in the limit. For W*/c it is of order eps / log(1/eps).
    """
    answer, loss, eps = optimum(settings, settings.d, seed)
    expected = expected_optimum(settings.d, eps)
    small = settings.least_eps
    order = small**MARGIN * math.sqrt(2 / math.pi) / (MARGIN * math.log(1 / small))
    order_error = abs(long_loss(small) / order - 1)
    return Finding(
        conclusions=(
            Conclusion("|answer / expected - 1|", "<=", 0.15, abs(answer / expected - 1)),
            Conclusion("|K1(W*) / that of infinite prompts - 1|", "<=", 0.15, abs(loss / long_loss(eps) - 1)),
            Conclusion(f"|K1(W*) / its order - 1| at eps = {small:g}", "<=", 0.02, order_error),
            Conclusion(f"K1(W*) / eps at eps = {small:g}", ">=", 1.0, long_loss(small) / small),
            Conclusion(f"K1(W*/c) / eps at eps = {small:g}", "<=", 1.0, long_loss(small, 1 / MARGIN) / small),
        ),
        numbers={
            "answer": answer,
            "expected": expected,
            **{f"K1(W*) / eps at eps = {e:g}": long_loss(e) / e for e in (1e-1, 1e-4, 1e-20, 1e-80)},
        },
    )


MARGIN = (1 + math.sqrt(2 / math.pi)) / 2
"""The least margin of a prompt at W*, over log(1/eps)."""


def long_loss(eps: float, factor: float = 1.0) -> float:
    """Return E log(1 + exp(-m)) for the margin m = factor c log(1/eps) (1 + |g|), g standard normal."""
    least = factor * MARGIN * math.log(1 / eps)
    g = torch.linspace(0, 12, 24_001, dtype=torch.float64)
    density = math.sqrt(2 / math.pi) * torch.exp(-(g**2) / 2)
    return torch.trapezoid(density * torch.log1p(torch.exp(-least * (1 + g))), g).item()


@claim(
    "P3/definition-5-repaired",
    nature="proof step",
    plain="The mean is exact, and the set is empty with probability at least 1 - 3 atan(r/u)/(2 pi).",
    sharp="sharp for the mean; the union bound loses a factor of 3/2 at most",
    title="The number of tokens that tell z - zeta, z and z + zeta apart",
    derivation="""For one token v = V'x is a normal vector whose direction in the plane of z and zeta is
        uniform. The three conditions leave an arc of the angle between z and z + zeta, atan(r/u). A
        prompt has at most three different tokens, and the union bound gives the second part.""",
    quick={"u": 1.0, "r": 0.2, "draws": 40_000, "L": 1025},
    sizes=({"r": 0.2}, {"r": 0.05}),
)
def telling_tokens_by_angle(settings: Settings, seed: int) -> Finding:
    """The mean of |H_1| is the number of tokens times atan(r/u)/(2 pi). H_1 is empty with probability at
    least 1 - 3 atan(r/u)/(2 pi), so |H_1| does not concentrate.
    """
    shares = telling_shares(settings, settings.L, seed)
    arc = math.atan(settings.r / settings.u) / (2 * math.pi)
    errors = (shares.std() / math.sqrt(len(shares))).item()
    nonempty = (shares > 0).double().mean().item()
    distance = abs(shares.mean().item() - arc) / errors
    least = shares[shares > 0].min().item() if nonempty else math.nan
    to_arc = "distance of the mean of |H_1| / L to atan(r/u)/(2 pi), standard errors"
    return Finding(
        conclusions=(
            Conclusion(to_arc, "<=", 4.0, distance),
            Conclusion("P(H_1 is not empty) / (3 atan(r/u)/(2 pi))", "<=", 1.0, nonempty / (3 * arc)),
        ),
        numbers={"P(H_1 is not empty)": nonempty, "smallest |H_1| / L if it is not empty": least},
    )
