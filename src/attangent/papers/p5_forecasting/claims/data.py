"""Sections 4.1 and 6.1, Appendix C: the residual state-space model and the sign-inconsistent task."""

import math

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit import Conclusion, Failure, Finding, Series, Settings, claim
from attangent.papers.common.figures import plot
from attangent.papers.p5_forecasting.claims import proofs_of_slips
from attangent.papers.p5_forecasting.theory.ssm import ResidualSSM


@claim(
    "P5/claim-c.2",
    plain="""Printed: unit features with four properties. True: Property 3 makes P_(d+1) shorter than 1;
        the others can be had together.""",
    failure=Failure(
        cause="P5/claim-c.2",
        consequence="Property 1 holds for k <= d only; constants change",
        first_size="d = 2",
        root="two properties exclude each other",
    ),
    proof=proofs_of_slips.claim_c_2,
    place="Section 4.1 and Appendix C, Claims 4.2 and C.2",
    title="Residual SSM features with four properties",
    quote="""by choosing some appropriate value for A, B and C, we can show that for a certain gamma < 1,
        we have""",
    quick={"d": 8, "sigma": 0.01, "tolerance": 1e-9},
    full={"d": 64},
)
def properties(settings: Settings, seed: int) -> Finding:
    """For suitable (A, B, C) the values are u_k = <P_k, h_1>, with |P_k| = 1 for all k <= d + 1, one core
    feature P_d orthogonal to the others with <P_d, P_(d+1)> = gamma < 1, and P_(d+1) = (d-1)/d P_d + 1/d
    times the mean of the others.
    """
    d = settings.d
    tolerance = settings.tolerance
    ssm = ResidualSSM(d, settings.sigma, seed)
    P = ssm.features()
    core = P[d - 1]
    norms = P.norm(dim=1)
    gamma = (core @ P[d]).item()
    length = norms[d].item()
    most = math.sqrt((d - 1) ** 2 + 1) / d
    recursion = recursion_gap(ssm, seed)
    norm_error = (norms - 1).abs().max().item()
    overlap = (P[: d - 1] @ core).abs().max().item()
    return Finding(
        conclusions=(
            Conclusion("gap of the recursion to <P_k, h_1>", "<=", 1e-10, recursion, part="recursion"),
            Conclusion("Property 1: largest ||P_k| - 1|", "<=", tolerance, norm_error, part="Property 1"),
            Conclusion("Property 2: <P_d, P_(d+1)>", "<=", 1 - 1e-9, gamma, part="Property 2"),
            Conclusion("Property 2: largest |<P_d, P_k>|", "<=", tolerance, overlap, part="Property 2"),
            Conclusion("Property 3: gap", "<=", tolerance, _gap_of_property_3(P), part="Property 3"),
            Conclusion("|P_(d+1)| against the most Property 3 allows", "<=", most, length, claimed=False),
        ),
        numbers={"gamma": gamma, "|P_(d+1)|": length},
        remark="Properties 1 and 3 exclude each other: the triangle inequality leaves |P_(d+1)|^2 at most "
        "((d-1)^2 + 1)/d^2 < 1. The first d features can be unit; gamma is (d-1)/d.",
    )


@claim(
    "P5/claim-c.2-repaired",
    plain="Unit features P_1..P_d with P_(d+1) of norm just below 1 exist.",
    sharp="sharp: the norm is exact",
    title="Residual SSM features with the properties that can be had together",
    derivation="""Property 3 is a convex combination of unit vectors that are not all equal, hence shorter
        than 1: Property 1 can hold for k <= d only. Take M' = Q K Q' with Q orthogonal and K the companion
        matrix whose last column has the weights of Property 3: it maps P_k to P_(k+1). C = P_1, any B and A
        = M - B C' then give these features, since u_k = C'(A + B C')^(k-1) h_1. The inner products follow
        from orthonormality.""",
    quick={"d": 8, "sigma": 0.01},
    sizes=({"d": 8}, {"d": 32}),
)
def properties_together(settings: Settings, seed: int) -> Finding:
    """There are (A, B, C) whose features P_1..P_d are orthonormal with P_(d+1) = (d-1)/d P_d + 1/d times the
    mean of the others. Then gamma = (d-1)/d and |P_(d+1)|^2 = ((d-1)^2 + 1/(d-1))/d^2, below 1.
    """
    d = settings.d
    ssm = ResidualSSM(d, settings.sigma, seed)
    P = ssm.features()
    gram = P[:d] @ P[:d].T - torch.eye(d, dtype=torch.float64)
    gamma_gap = abs((P[d - 1] @ P[d]).item() - (d - 1) / d)
    norm_gap = abs(P[d].square().sum().item() - ((d - 1) ** 2 + 1 / (d - 1)) / d**2)
    return Finding(
        conclusions=(
            Conclusion("gap of the recursion to <P_k, h_1>", "<=", 1e-9, recursion_gap(ssm, seed)),
            Conclusion("largest |P_j'P_k - delta_jk| for j, k <= d", "<=", 1e-9, gram.abs().max().item()),
            Conclusion("Property 3: gap", "<=", 1e-9, _gap_of_property_3(P)),
            Conclusion("distance of gamma to (d-1)/d", "<=", 1e-9, gamma_gap),
            Conclusion("distance of |P_(d+1)|^2 to the formula", "<=", 1e-9, norm_gap),
        )
    )


def _gap_of_property_3(P: Tensor) -> float:
    """Return the distance of P_(d+1) to (d-1)/d P_d + 1/d times the mean of the others."""
    d = len(P) - 1
    return (P[d] - ((d - 1) / d * P[d - 1] + P[: d - 1].mean(dim=0) / d)).norm().item()


def recursion_gap(ssm: ResidualSSM, seed: int) -> float:
    """The model run step by step, as Definition 4.1 has it, against the features."""
    A, B, C = ssm.matrices()
    first = torch.randn(ssm.d, generator=generator(seed, "state"), dtype=torch.float64)
    h = first
    values = []
    for _ in range(ssm.d + 1):
        values.append(C @ h)
        h = A @ h + B * values[-1]
    return (torch.stack(values) - ssm.features() @ first).abs().max().item()


@claim(
    "P5/definition-6.1",
    plain="Ours: the sign-inconsistent task has the probability atan((d-1)^(-3/2))/pi.",
    kind="ours",
    place="ours, on Section 6.1, Definition 6.1 (Appendix C, Definition C.4)",
    title="The sign-inconsistent task and its probability",
    quick={"d": 8, "sigma": 0.0, "n": 400_000},
    full={"n": 4_000_000},
)
def inconsistent_task(settings: Settings, seed: int) -> Finding:
    """Windows with u_d u_(d+1) < 0 have probability atan((d-1)^(-3/2))/pi under the data model, and those
    drawn without rejection are distributed as those drawn by rejection.
    """
    ssm = ResidualSSM(settings.d, settings.sigma, seed)
    x, y = ssm.sample(settings.n, generator(seed, "plain"))
    kept = x[:, -1] * y < 0
    direct = ssm.sample_inconsistent(int(kept.sum()), generator(seed, "direct"))
    share = kept.double().mean().item()
    expected = ssm.inconsistent_share
    deviation = math.sqrt(expected * (1 - expected) / settings.n)
    dimensions = range(3, 65)
    consistent = (direct[0][:, -1] * direct[1] >= 0).sum().item()
    moment_gap = _moment_gap(direct, (x[kept], y[kept]))
    return Finding(
        conclusions=(
            Conclusion("deviations of the share from theta/pi", "<=", 4.5, abs(share - expected) / deviation),
            Conclusion("consistent windows among those drawn directly", "<=", 0, consistent),
            Conclusion("largest z of moments, direct against rejection", "<=", 5.0, moment_gap),
        ),
        numbers={
            "share": share,
            "theta / pi": expected,
            **{f"risk of {name} there": risk for name, risk in ssm.baseline_risks(True).items()},
        },
        figures=(
            plot(
                "How rare the task is",
                ("d", "probability"),
                Series.of("theta / pi", dimensions, [ResidualSSM(d).inconsistent_share for d in dimensions]),
                log="y",
            ),
        ),
        remark="The task sits where x_d is near 0, so that predicting zero is a strong baseline.",
    )


def _moment_gap(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> float:
    """The largest |difference of means| / standard error over squares, products with y and fourth powers."""

    def moments(x: Tensor, y: Tensor) -> Tensor:
        return torch.cat((x.square(), x * y[:, None], x**4, y[:, None].square()), dim=1)

    a = moments(*first)
    b = moments(*second)
    error = (a.var(dim=0) / len(a) + b.var(dim=0) / len(b)).sqrt()
    return ((a.mean(dim=0) - b.mean(dim=0)).abs() / error).max().item()


def _below(t: float, sigma: float) -> float:
    """P(N(0, sigma^2) <= t)."""
    return 0.5 * (1 + math.erf(t / (sigma * math.sqrt(2))))


@claim(
    "P5/fact-b.2",
    nature="misprint",
    plain="P(x <= t) is printed for P(|x| <= t).",
    failure=Failure(
        cause="P5/fact-b.2",
        consequence="used nowhere as printed",
        first_size="every t < 1.0768 sigma",
        root="|x| is meant",
    ),
    proof=proofs_of_slips.fact_b_2,
    place="Appendix B, Fact B.2",
    title="Small balls of a normal variable",
    quote="then for any t > 0, we have: Pr[x <= t] <= 2t / (sqrt(2 pi) sigma)",
    quick={"sigma": 1.0, "ts": [0.01, 0.1, 0.5, 1.0, 3.0]},
    seeds=1,
)
def small_balls(settings: Settings, seed: int) -> Finding:
    """P(x <= t) <= 2t / (sqrt(2 pi) sigma) for x ~ N(0, sigma^2) and every t > 0."""
    ratios = [_below(t, settings.sigma) / _ball(t, settings.sigma) for t in settings.ts]
    return Finding(
        conclusions=(Conclusion("largest P(x <= t) / bound", "<=", 1.0, max(ratios)),),
        remark="P(x <= t) is above 1/2 for every t > 0; |x| is meant.",
    )


def _ball(t: float, sigma: float) -> float:
    return 2 * t / (math.sqrt(2 * math.pi) * sigma)


@claim(
    "P5/fact-b.2-repaired",
    nature="misprint",
    plain="The bound holds for |x|.",
    sharp="sharp as t -> 0",
    title="Small balls of a normal variable",
    derivation="""The density is at most 1/(sqrt(2 pi) sigma), and the interval has the length 2t.""",
    quick={"sigma": 1.0, "ts": [0.01, 0.1, 0.5, 1.0, 3.0]},
    sizes=({"sigma": 0.5}, {"sigma": 2.0}),
)
def small_balls_of_the_size(settings: Settings, seed: int) -> Finding:
    """P(|x| <= t) <= 2t / (sqrt(2 pi) sigma) for x ~ N(0, sigma^2) and every t > 0."""
    ratios = [(2 * _below(t, settings.sigma) - 1) / _ball(t, settings.sigma) for t in settings.ts]
    return Finding(conclusions=(Conclusion("largest P(|x| <= t) / bound", "<=", 1.0, max(ratios)),))


@claim(
    "P5/fact-b.8",
    nature="misprint",
    plain="A square is missing; Lemma I.4 uses it with the square.",
    failure=Failure(
        cause="P5/fact-b.8",
        consequence="used with the square",
        first_size="d = 2",
        root="a square is missing",
    ),
    proof=proofs_of_slips.fact_b_8,
    place="Appendix B, Fact B.8, used in Lemma I.4",
    title="Distance of a vector to its mean under a softmax",
    quote="There exists a small constant c > 0 such that: (1/d) <1_d, x - 1_d <s, x>> >= c v_x",
    quick={"d": 8, "draws": 1000},
    full={"d": 64},
)
def distance_to_the_mean(settings: Settings, seed: int) -> Finding:
    """(1/d) <1, x - 1 <s, x>> is at least c times the variance of x, for every softmax vector s and every
    x.
    """
    s, x = _softmax_and_values(settings, seed)
    sides = x.mean(dim=1) - (s * x).sum(dim=1)
    least_side = (sides / x.var(dim=1, correction=0)).min().item()
    return Finding(
        conclusions=(Conclusion("least left-hand side / variance", ">=", 0.0, least_side),),
        numbers={"share of draws with a negative left-hand side": (sides < 0).double().mean().item()},
        remark="The left-hand side is the mean of x less its mean under s, negative for half of all s. Lemma"
        " I.4 uses the squares (x - 1 <s, x>)^2, for which it is true.",
    )


def _softmax_and_values(settings: Settings, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = generator(seed, "softmax vectors")
    logits, x = (
        torch.randn(settings.draws, settings.d, generator=rng, dtype=torch.float64) for _ in range(2)
    )
    return torch.softmax(3 * logits, dim=1), x


@claim(
    "P5/fact-b.8-repaired",
    nature="misprint",
    plain="With the square c = 1.",
    sharp="sharp: equality if <s, x> is the mean",
    title="Squared distance of a vector to its mean under a softmax",
    derivation="""The mean of (x_k - a)^2 over k is v_x + (xbar - a)^2, least at a = xbar.""",
    quick={"d": 8, "draws": 1000},
    sizes=({"d": 8}, {"d": 64}),
)
def squared_distance_to_the_mean(settings: Settings, seed: int) -> Finding:
    """(1/d) <1, (x - 1 <s, x>)^2> >= v_x for every softmax vector s and every x: c = 1."""
    s, x = _softmax_and_values(settings, seed)
    sides = (x - (s * x).sum(dim=1, keepdim=True)).square().mean(dim=1)
    ratios = sides / x.var(dim=1, correction=0)
    return Finding(
        conclusions=(Conclusion("least left-hand side / variance", ">=", 1 - 1e-12, ratios.min().item()),)
    )
