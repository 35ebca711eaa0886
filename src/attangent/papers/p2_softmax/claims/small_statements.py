"""Facts, Hoeffding's inequality, a misprint and the o(1) of Table 1, quickly checked."""

import math

import torch

from attangent.audit import Conclusion, Failure, Finding, Settings, claim
from attangent.kernels import vectorise
from attangent.papers.common.bounds import falling, worst_ratio
from attangent.papers.p2_softmax import proofs
from attangent.papers.p2_softmax.claims.softmax_regression import kernel_is_definite, softmax_regression


@claim(
    "P2/lemma-5.3-quarter",
    place="Section 5, Lemma 5.3, Loss Property and Loss Induction",
    title="The induction assumes a factor and concludes a weaker one",
    quote="""|F(i) - Y|_F^2 <= |F(0) - Y|_F^2 (1 - m eta lambda/2)^i ... |F(tau+1) - Y|_F^2 <= (1 - m eta
        lambda/4)^(tau+1) |F(0) - Y|_F^2""",
    rests_on=("P2/lemma-5.3",),
    nature="misprint",
    plain="""Lemma 5.3 assumes the factor 1 - x/2 per step and concludes 1 - x/4, so the induction does
        not close as printed. The proof gives 1 - x/2, and training keeps it.""",
    failure=Failure(
        "P2/lemma-5.3-quarter",
        "used nowhere: the proof gives the factor that the induction needs",
        "every step",
        root="a factor 1/4 is printed for 1/2",
    ),
    proof=proofs.weaker_induction,
    quick={"n": 6, "d": 8, "d_out": 4, "m": 512, "sigma": 1.0, "rate": 0.5, "steps": 50, "divisor": 4.0},
    seconds=0.2,
)
def quarter(settings: Settings, seed: int) -> Finding:
    """The bound that Lemma 5.3 concludes at step tau + 1 is at most the one that it assumes at the next
    step.
    """
    p = softmax_regression(settings, seed)
    run = p.train(settings)
    contraction = settings.rate * p.lambda_min / p.lambda_max
    assumed = falling(run.loss, contraction / 2)
    concluded = falling(run.loss, contraction / settings.divisor)
    return Finding(
        hypotheses=(kernel_is_definite(p),),
        conclusions=(
            Conclusion(
                "concluded bound / assumed bound, last step",
                "<=",
                1 + 1e-12,
                (concluded / assumed)[-1].item(),
            ),
            Conclusion(
                "largest loss / assumed bound", "<=", 1 + 1e-9, worst_ratio(run.loss, assumed), claimed=False
            ),
        ),
    )


@claim(
    "P2/table-1-exponent",
    place="Section 1, Table 1; Section 4, below Theorem 4.2",
    title="exp(Theta(B)) = (nd)^o(1)",
    quote="since exp(Theta(B)) = (nd)^(o(1)), we can simplify the m = Omega(lambda^-2 (nd)^(2+o(1)))",
    nature="remark",
    plain="""The o(1) of Table 1 goes to 0, as printed, but it is 56 at n = 10^6 and above 1 until n =
        10^14000: the bounds are not almost the same as for ReLU at any size that can be run.""",
    ours=("C = 10, sigma = 1 and d = 1; delta = 0.01 is that of Table 1",),
    quick={"logs": [1e3, 1e4, 1e5, 1e6], "C": 10.0, "factor": 18.0, "delta": 0.01, "power": 0.5},
    seconds=0.1,
)
def small_exponent(settings: Settings, seed: int) -> Finding:
    """The exponent of n in e^(18B), 18 B / log n, goes to 0 as n grows."""
    # the draw only varies delta, so that the exponents are no exact power law
    draw = torch.rand(1, generator=torch.Generator().manual_seed(seed)).item()
    delta = settings.delta * (0.5 + draw)
    exponents = [_exponent(log_n, settings, delta) for log_n in settings.logs]
    return Finding(
        conclusions=(
            Conclusion("18 B / log n at the largest n", "<=", 1.0, exponents[-1], threshold="ours"),
            Conclusion.of_trend("18 B / log n, over log n", "<=", -0.5, settings.logs, exponents),
        ),
        numbers={
            f"exponent at n = 10^{k}": _exponent(k * math.log(10), settings, settings.delta) for k in (6, 9)
        },
        remark="m needs n^2 in the table; with the o(1) written out it is n^58 at n = 10^6.",
    )


def _exponent(log_n: float, settings: Settings, delta: float) -> float:
    """18 B / log n with B = C (log n + log 1/delta)^power."""
    return settings.factor * settings.C * (log_n - math.log(delta)) ** settings.power / log_n


@claim(
    "P2/definition-f.1",
    place="Appendix F.1, below Theorem F.2",
    title="The optimum of kernel regression",
    quote="We have the optimal solution for kernel regression is gamma* := m^-1 (H*)^-1 vec(Y)",
    rests_on=("P2/definition-3.6",),
    nature="definition",
    plain="The printed optimum interpolates the data, and the iteration of Eq. (25) converges to it.",
    quick={"n": 6, "d": 8, "d_out": 2, "m": 512, "sigma": 1.0, "steps": 30, "scale": 1.0},
    seconds=0.1,
)
def optimum(settings: Settings, seed: int) -> Finding:
    """gamma* = (m H*)^-1 vec(Y) satisfies m H* gamma* = vec(Y), and Eq. (25) converges to it."""
    p = softmax_regression(settings, seed)
    mH = settings.m * p.kernel
    y = vectorise(p.Y)
    star = torch.linalg.solve(mH, y) * settings.scale
    gamma = torch.zeros_like(y)
    for _ in range(settings.steps):
        gamma = gamma - (mH @ gamma - y) / (settings.m * p.lambda_max)
    left = (1 - p.lambda_min / p.lambda_max) ** settings.steps
    return Finding(
        hypotheses=(kernel_is_definite(p),),
        conclusions=(
            Conclusion("|m H* gamma* - y| / |y|", "<=", 1e-9, ((mH @ star - y).norm() / y.norm()).item()),
            Conclusion(
                "|gamma(tau) - gamma*| / (its bound (1 - lambda/lambda_max)^tau |gamma*|)",
                "<=",
                1 + 1e-6,
                ((gamma - star).norm() / (left * star.norm())).item(),
            ),
        ),
    )


@claim(
    "P2/fact-a.5",
    place="Appendix A, Facts A.5 to A.8",
    title="Four elementary inequalities",
    quote="""(1 - x)^(1/2) <= 1 - 0.5x (A.5), |exp(x) - 1| <= 2|x| (A.6), sum_i x^i <= 1/(1-x) (A.7),
        exp(x) = 1 + x + Theta(1) x^2 (A.8)""",
    nature="quotation",
    plain="All four elementary inequalities are right in their ranges.",
    quick={"points": 101, "reach": 0.1, "slope": 2.0},
    seconds=0.1,
)
def elementary(settings: Settings, seed: int) -> Finding:
    """(1 - x)^(1/2) <= 1 - x/2 and |e^x - 1| <= 2|x| for |x| <= 0.1, sum_i x^i <= 1/(1 - x) for 0 < x <
    0.1, and (e^x - 1 - x)/x^2 lies between 0.49 and 0.51 for |x| <= 0.01.
    """
    grid = torch.linspace(-settings.reach, settings.reach, settings.points, dtype=torch.float64)
    x = grid[grid.abs() > 1e-9]
    small = x / 10
    factor = (torch.expm1(small) - small) / small.square()
    positive = x[x > 0]
    total = sum(positive**i for i in range(40))
    return Finding(
        conclusions=(
            Conclusion("A.5: largest excess", "<=", 0.0, ((1 - x).sqrt() - (1 - x / 2)).max().item()),
            Conclusion(
                "A.6: largest |e^x - 1| / |x|", "<=", settings.slope, (torch.expm1(x) / x).max().item()
            ),
            Conclusion("A.7: largest sum / bound", "<=", 1 + 1e-12, (total * (1 - positive)).max().item()),
            Conclusion("A.8: largest factor", "<=", 0.51, factor.max().item()),
            Conclusion("A.8: smallest factor", ">=", 0.49, factor.min().item()),
        ),
    )


@claim(
    "P2/lemma-a.9",
    place="Appendix A, Lemma A.9",
    title="Hoeffding's inequality",
    quote="Pr[|x - E[x]| >= t] <= 2 exp(-2 t^2 / sum_i (beta_i - alpha_i)^2)",
    nature="quotation",
    plain="Hoeffding's inequality is quoted rightly.",
    quick={"counts": [1, 2, 10, 100], "share": 0.3, "factor": 2.0},
    seeds=1,
    seconds=0.1,
)
def hoeffding(settings: Settings, seed: int) -> Finding:
    """For n coins in {0, 1} with any chance of 1, the exact two-sided tail is at most 2 exp(-2 t^2/n)."""
    return Finding(
        conclusions=tuple(
            Conclusion(
                f"largest tail / bound, n = {n}, chance {chance:g}",
                "<=",
                1 + 1e-12,
                _worst_tail(n, chance, settings.factor),
            )
            for n in settings.counts
            for chance in (0.5, settings.share)
        ),
    )


def _worst_tail(n: int, chance: float, factor: float) -> float:
    """Return the largest exact P(|x - n p| >= t) / (factor exp(-2 t^2/n)); it is attained at a jump."""
    from scipy import stats

    law = stats.binom(n, chance)
    mean = n * chance
    jumps = [abs(k - mean) for k in range(n + 1) if abs(k - mean) > 1e-9]
    tails = [law.sf(math.ceil(mean + t - 1e-9) - 1) + law.cdf(math.floor(mean - t + 1e-9)) for t in jumps]
    return max(tail / (factor * math.exp(-2 * t**2 / n)) for tail, t in zip(tails, jumps, strict=True))
