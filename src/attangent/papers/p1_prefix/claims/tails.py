"""Lemmas D.3, D.5, D.6 and D.8 to D.10: cited tail bounds, compared with exact probabilities."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from attangent.audit import Conclusion, Failure, Finding, Settings, claim
from attangent.papers.common.bounds import comparison
from attangent.papers.p1_prefix.proofs import tails

Tail = Callable[[float], tuple[float, float]]
"""Maps a threshold to the exact probability of exceeding it and to its bound."""


def worst(tail: Tail, thresholds: Sequence[float]) -> float:
    """log10 of the largest probability / bound over these thresholds."""
    pairs = [tail(threshold) for threshold in thresholds]
    return max(math.log10(exact) - math.log10(bound) for exact, bound in pairs if exact > 0)


def binomial_tail(n: int, mu: float, upper: bool, rate: Callable[[float], float]) -> Tail:
    """P(X >= (1 + delta) mu) or P(X <= (1 - delta) mu) for Binomial(n, mu/n), and exp(-rate(delta) mu)."""
    from scipy import stats

    return _counting_tail(stats.binom(n, mu / n), mu, upper, rate)


def urn_tail(urn: int, n: int, mu: float, upper: bool, rate: Callable[[float], float]) -> Tail:
    """Like `binomial_tail`, for n draws without replacement from `urn` zeros and ones with mean mu/n."""
    from scipy import stats

    ones = round(urn * mu / n)
    return _counting_tail(stats.hypergeom(urn, ones, n), n * ones / urn, upper, rate)


def _counting_tail(law: Any, mu: float, upper: bool, rate: Callable[[float], float]) -> Tail:
    def tail(delta: float) -> tuple[float, float]:
        least = math.ceil((1 + delta) * mu - 1e-9)
        most = math.floor((1 - delta) * mu + 1e-9)
        return float(law.sf(least - 1) if upper else law.cdf(most)), math.exp(-rate(delta) * mu)

    return tail


def chi_square_tail(k: int, excess: Callable[[float], float], upper: bool) -> Tail:
    """P(X - k >= excess(t)) or P(X - k <= -excess(t)) for chi-square with k degrees of freedom, and e^-t."""
    from scipy import stats

    law = stats.chi2(k)

    def tail(t: float) -> tuple[float, float]:
        exact = law.sf(k + excess(t)) if upper else law.cdf(k - excess(t))
        return float(exact), math.exp(-t)

    return tail


def signs_tail(n: int, rate: float, factor: float) -> Tail:
    """P(|sum of n signs| >= t sqrt n), and factor exp(-rate t^2)."""
    from scipy import stats

    law = stats.binom(n, 0.5)

    def tail(t: float) -> tuple[float, float]:
        least = math.ceil((n + t * math.sqrt(n)) / 2 - 1e-9)
        return min(1.0, 2 * float(law.sf(least - 1))), factor * math.exp(-rate * t**2)

    return tail


def kept(name: str, measured: float, part: str = "") -> Conclusion:
    return Conclusion(f"{name}: largest probability / bound", "<=", 1e-12, measured, log10=True, part=part)


@claim(
    "P1/lemma-d.3",
    place="Appendix D.2, Lemma D.3",
    title="Chernoff bound",
    quote="""Pr[X >= (1 + delta)mu] <= exp(-delta^2 mu/3), for all delta > 0; Pr[X <= (1 - delta)mu] <=
        exp(-delta^2 mu/1), for all 0 < delta < 1.""",
    nature="quotation",
    plain="""Chernoff's bound misquoted: the lower tail lacks a factor 1/2, and the upper tail holds for
        delta <= 1 but not for all delta. The paper uses it nowhere.""",
    failure=Failure(
        "P1/lemma-d.3",
        "used nowhere",
        "one coin with p = 1/10",
        root="the lower tail lacks a factor 1/2, and the upper tail is stated for all delta",
    ),
    proof=tails.chernoff,
    quick={"coin": 0.1, "n": 400, "mu": 20.0, "upper": [0.1, 0.5, 1.0], "half": 1.0, "third": 3.0},
    seeds=1,
)
def chernoff(settings: Settings, seed: int) -> Finding:
    """For a sum X of independent 0-1 variables with mean mu, Pr[X >= (1 + delta) mu] <= exp(-delta^2 mu/3)
    for all delta > 0, and Pr[X <= (1 - delta) mu] <= exp(-delta^2 mu) for 0 < delta < 1.
    """
    one = binomial_tail(1, settings.coin, True, lambda delta: delta**2 / settings.third)
    upper = binomial_tail(settings.n, settings.mu, True, lambda delta: delta**2 / settings.third)
    lower = binomial_tail(settings.n, settings.mu, False, lambda delta: delta**2 / settings.half)
    exact, bound = lower(0.5)
    most = worst(upper, settings.upper)
    delta = 1 / settings.coin - 1
    return Finding(
        conclusions=(
            kept(f"one coin, p = {settings.coin:g}, delta = {delta:g}", worst(one, [delta]), "upper tail"),
            kept(f"{settings.n} coins, mu = {settings.mu:g}, delta = 0.5", worst(lower, [0.5]), "lower tail"),
            comparison("upper tail, delta <= 1: largest probability / bound", "<=", 0.0, most, log10=True),
        ),
        numbers={"lower tail, mu = 20, delta = 0.5": exact, "its bound": bound},
        remark="The upper bound holds up to delta = 1.8. The lower bound should be exp(-delta^2 mu/2). The "
        "paper uses neither.",
    )


@claim(
    "P1/lemma-d.5",
    place="Appendix D.2, Lemma D.5",
    title="Bernstein's inequality",
    quote="Then, for all positive t, Pr[sum_i X_i >= t] <= exp(-(t^2/2) / (sum_j E[X_j^2] + Mt/3))",
    nature="quotation",
    plain="Bernstein's inequality is quoted rightly; the paper uses it nowhere.",
    quick={"n": 40, "chances": [0.01, 0.1, 0.5], "variance": 1.0},
    seeds=1,
)
def bernstein(settings: Settings, seed: int) -> Finding:
    """For n independent coins less their mean, |X_i| <= 1, the exact tail is at most Bernstein's bound."""
    by_chance = {p: bernstein_tail(settings.n, p, settings.variance) for p in settings.chances}
    return Finding(
        conclusions=tuple(
            kept(f"{settings.n} coins of chance {p:g}", worst(tail, _above(settings.n, p)))
            for p, tail in by_chance.items()
        ),
        numbers={
            f"largest tail / bound, chance {p:g}": 10 ** worst(t, _above(settings.n, p))
            for p, t in by_chance.items()
        },
    )


def _above(n: int, chance: float) -> range:
    """The counts above the mean: the lemma is about positive t."""
    return range(math.floor(n * chance) + 1, n)


def bernstein_tail(n: int, chance: float, variance: float) -> Tail:
    """P(Binomial(n, p) >= k) and the bound at t = k - np > 0."""
    from scipy import stats

    law = stats.binom(n, chance)

    def tail(k: float) -> tuple[float, float]:
        t = k - n * chance
        bound = math.exp(-(t**2) / 2 / (variance * n * chance * (1 - chance) + t / 3))
        return float(law.sf(k - 1)), bound

    return tail


@claim(
    "P1/lemma-d.6",
    place="Appendix D.2, Lemma D.6",
    title="Khintchine's inequality",
    quote="""Then there are constants C > 0 so that for all t > 0 Pr[|sum_i z_i sigma_i| >= t |z|_2] <= exp(-C
        t^2).""",
    nature="quotation",
    plain="Khintchine's inequality quoted without the factor 2 of two tails. The paper uses it nowhere.",
    failure=Failure(
        "P1/lemma-d.6", "used nowhere", "one sign, t = 1", root="the factor 2 for the two tails is missing"
    ),
    proof=tails.one_sign,
    quick={"n": 1, "constants": [1e-6, 1e-3, 0.1, 0.5]},
    seeds=1,
)
def khintchine(settings: Settings, seed: int) -> Finding:
    """There is a constant C > 0 such that Pr[|sum_i z_i sigma_i| >= t |z|] <= exp(-C t^2) for all t > 0 and
    independent signs sigma.
    """
    # For one sign and t = 1 the left side is 1, and the right side is below 1 for every C > 0.
    ratios = {C: worst(signs_tail(settings.n, C, 1.0), [1.0]) for C in settings.constants}
    return Finding(
        conclusions=(kept("t = 1, best constant", min(ratios.values())),),
        numbers={f"probability / bound, C = {C:g}": 10**ratio for C, ratio in ratios.items()},
        remark="For one sign and t = 1 the probability is 1, but exp(-C) < 1 for every C > 0.",
    )


@claim(
    "P1/lemma-d.8",
    place="Appendix D.2, Lemma D.8",
    title="Tails of a chi-square variable",
    quote="""Pr[X - k sigma^2 >= (2 sqrt(kt) + 2t) sigma^2] <= exp(-t), Pr[X - k sigma^2 >= 2 sqrt(kt)
        sigma^2] <= exp(-t).""",
    nature="quotation",
    plain="""The lower tail of a chi-square variable is printed with the sign of the upper tail. The paper
        uses it nowhere.""",
    failure=Failure(
        "P1/lemma-d.8",
        "used nowhere",
        "k = 1, t = 3.54; k = 2, t = 2 + sqrt 3",
        root="a lower tail is printed with the sign of the upper tail",
    ),
    proof=tails.chi_square,
    quick={"degrees": [1, 2, 4, 16], "places": [0.5, 1.0, 4.0, 9.0]},
    seeds=1,
)
def chi_square(settings: Settings, seed: int) -> Finding:
    """A chi-square variable with k degrees of freedom exceeds its mean by 2 sqrt(kt) + 2t with probability at
    most e^-t, and by 2 sqrt(kt) also with probability at most e^-t.
    """
    # For k = 1 and t = 9, Pr[X - 1 >= 6] = .0082, but e^-9 = .00012.
    first = [chi_square_tail(k, lambda t, k=k: 2 * math.sqrt(k * t) + 2 * t, True) for k in settings.degrees]
    second = [chi_square_tail(k, lambda t, k=k: 2 * math.sqrt(k * t), True) for k in settings.degrees]
    exact, bound = second[0](9.0)
    return Finding(
        conclusions=(
            kept("first line", max(worst(tail, settings.places) for tail in first), "first line"),
            kept("second line", max(worst(tail, settings.places) for tail in second), "second line"),
        ),
        numbers={"second line, k = 1, t = 9": exact, "its bound": bound},
        remark="The second line is the lower tail of Laurent and Massart, printed with the sign of the "
        "upper tail.",
    )


@claim(
    "P1/lemma-d.9",
    place="Appendix D.2, Lemma D.9",
    title="Tail of a sub-exponential variable",
    quote="Pr[|X - mu| >= t] <= exp(-0.5 min{t^2/sigma^2, t/alpha})",
    nature="quotation",
    plain="A two-sided sub-exponential tail quoted without the factor 2. The paper uses it nowhere.",
    failure=Failure(
        "P1/lemma-d.9", "used nowhere", "one sign, t = 1", root="the factor 2 of two tails is left out"
    ),
    proof=tails.one_sub_exponential_sign,
    quick={"n": 1, "alpha": 1.0, "places": [1.0]},
    seeds=1,
)
def sub_exponential(settings: Settings, seed: int) -> Finding:
    """If E e^(lX) <= exp(l^2 sigma^2/2) for |l| < 1/alpha, then Pr[|X - mu| >= t] <= exp(-0.5
    min(t^2/sigma^2, t/alpha)).
    """
    # For one sign, E e^(lX) = cosh l <= e^(l^2/2), but Pr[|X| >= 1] = 1 > e^(-1/2).
    arguments = [l / 50 for l in range(-49, 50)]
    moment = max(math.cosh(l) / math.exp(l * l / 2) for l in arguments)
    return Finding(
        conclusions=(kept("one sign", worst(signs_tail(settings.n, 0.5, 1.0), settings.places)),),
        numbers={"largest E e^(lX) / e^(l^2/2), sigma = 1": moment},
        remark="A random sign is in SE(1, alpha) for every alpha. The two-sided bound needs a factor 2. The "
        "printed condition forces mu = 0; for other means it must be on X - mu.",
    )


@claim(
    "P1/lemma-d.10",
    place="Appendix D.2, Lemma D.10",
    title="Matrix Chernoff bound",
    quote="""Pr[lambda_min(sum X_i) <= (1 - delta)mu_min] <= d exp(-delta^2 mu_min/B) for delta in (0, 1],
        Pr[lambda_max(sum X_i) >= (1 + delta)mu_max] <= d exp(-delta^2 mu_max/(4B)) for delta >= 0.""",
    nature="quotation",
    plain="The matrix Chernoff bound misquoted like the scalar one. The paper uses it nowhere.",
    failure=Failure(
        "P1/lemma-d.10",
        "used nowhere",
        "1 x 1 matrices, one draw of 12",
        root="the lower tail lacks a factor 1/2, and the upper tail is stated for all delta",
    ),
    proof=tails.matrix_chernoff,
    quick={"urn": 100_000, "n": 400, "mu": 20.0, "small": 20, "half": 1.0, "quarter": 4.0},
    seeds=1,
)
def matrix_chernoff(settings: Settings, seed: int) -> Finding:
    """Let n positive semi-definite d x d matrices of norm at most B be drawn without replacement. Then
    Pr[lambda_min(sum X_i) <= (1 - delta) mu_min] <= d exp(-delta^2 mu_min/B) and Pr[lambda_max(sum X_i) >= (1
    + delta) mu_max] <= d exp(-delta^2 mu_max/(4B)).
    """
    # Take d = 1 and B = 1: zeros and ones drawn from an urn, with nearly the tails of Lemma D.3.
    one = urn_tail(settings.small, 1, 1 / settings.small, True, lambda delta: delta**2 / settings.quarter)
    lower = urn_tail(settings.urn, settings.n, settings.mu, False, lambda delta: delta**2 / settings.half)
    exact, bound = lower(0.5)
    far, far_bound = one(settings.small - 1.0)
    return Finding(
        conclusions=(
            kept(f"{settings.n} draws, mu = {settings.mu:g}, delta = 0.5", worst(lower, [0.5]), "lower tail"),
            kept(
                f"one draw of {settings.small}, delta = {settings.small - 1}",
                worst(one, [settings.small - 1.0]),
                "upper tail",
            ),
        ),
        numbers={"lower tail": exact, "its bound": bound, "upper tail": far, "its bound, upper": far_bound},
        remark="The counter-examples are 1 x 1 matrices. The exponent of the lower tail lacks a factor "
        "1/2. For large delta the exponent of the upper tail is of order delta log delta, not "
        "delta^2. The paper does not use the lemma.",
    )
