"""Lemmas D.3, D.6 and D.8 to D.10: tail bounds that P1 takes over, against exact probabilities."""

import math
from collections.abc import Callable, Sequence

from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Finding
from attangent.audit.registry import claim

Tail = Callable[[float], tuple[float, float]]
"""From a place to the exact probability beyond it and a bound on that."""


def worst(tail: Tail, places: Sequence[float]) -> float:
    """The largest probability / bound over the places, as a decimal logarithm."""
    pairs = [tail(place) for place in places]
    return max(math.log10(exact) - math.log10(bound) for exact, bound in pairs if exact > 0)


def binomial_tail(n: int, mu: float, upper: bool, rate: Callable[[float], float]) -> Tail:
    """P(X >= (1 + delta) mu) or P(X <= (1 - delta) mu) of Binomial(n, mu/n) against exp(-rate(delta) mu)."""
    from scipy import stats

    law = stats.binom(n, mu / n)

    def tail(delta: float) -> tuple[float, float]:
        exact = law.sf(math.ceil((1 + delta) * mu - 1e-9) - 1) if upper else law.cdf((1 - delta) * mu + 1e-9)
        return float(exact), math.exp(-rate(delta) * mu)

    return tail


def urn_tail(urn: int, n: int, mu: float, upper: bool, rate: Callable[[float], float]) -> Tail:
    """As `binomial_tail`, for n numbers drawn without replacement from `urn` zeros and ones of mean mu/n."""
    from scipy import stats

    ones = round(urn * mu / n)
    law, mu = stats.hypergeom(urn, ones, n), n * ones / urn

    def tail(delta: float) -> tuple[float, float]:
        least, most = math.ceil((1 + delta) * mu - 1e-9), math.floor((1 - delta) * mu + 1e-9)
        return float(law.sf(least - 1) if upper else law.cdf(most)), math.exp(-rate(delta) * mu)

    return tail


def chi_square_tail(k: int, place: Callable[[float], float], upper: bool) -> Tail:
    """P(X - k >= place(t)) or P(X - k <= -place(t)) of a chi-square of k degrees against e^-t."""
    from scipy import stats

    law = stats.chi2(k)

    def tail(t: float) -> tuple[float, float]:
        exact = law.sf(k + place(t)) if upper else law.cdf(k - place(t))
        return float(exact), math.exp(-t)

    return tail


def signs_tail(n: int, rate: float, factor: float) -> Tail:
    """P(|sum of n signs| >= t sqrt n) against factor exp(-rate t^2)."""
    from scipy import stats

    law = stats.binom(n, 0.5)

    def tail(t: float) -> tuple[float, float]:
        least = math.ceil((n + t * math.sqrt(n)) / 2 - 1e-9)
        return min(1.0, 2 * float(law.sf(least - 1))), factor * math.exp(-rate * t**2)

    return tail


def _kept(name: str, measured: float, part: str = "") -> Conclusion:
    return Conclusion(f"{name}: largest probability / bound", "<=", 1e-12, measured, log10=True, part=part)


_CHERNOFF = {
    "n": 100_000,
    "means": [1.0, 25.0, 100.0, 400.0],
    "lower": [0.1, 0.2, 0.4, 0.6],
    "upper": [0.1, 0.5, 1.0, 3.0, 9.0],
}


@claim(
    "P1/lemma-d.3",
    place="Appendix D.2, Lemma D.3",
    title="Chernoff bound",
    quote="""Pr[X >= (1 + delta)mu] <= exp(-delta^2 mu/3), for all delta > 0;
        Pr[X <= (1 - delta)mu] <= exp(-delta^2 mu/1), for all 0 < delta < 1.""",
    statement="""For a sum X of independent 0-1 variables with mean mu the upper tail is at most
        exp(-delta^2 mu/3) for every delta > 0 and the lower at most exp(-delta^2 mu) for delta in (0, 1).""",
    quick=_CHERNOFF,
    seeds=1,
    seconds=0.1,
)
def chernoff(settings: Settings, seed: int) -> Finding:
    """Binomial(10^5, .001) at delta = .2 has a lower tail of .0226 against .0183."""
    upper, lower = (
        {mu: binomial_tail(settings.n, mu, side, rate) for mu in settings.means}
        for side, rate in ((True, lambda delta: delta**2 / 3), (False, lambda delta: delta**2))
    )
    exact, bound = lower[100.0](0.2)
    small = [delta for delta in settings.upper if delta <= 1]
    return Finding(
        conclusions=(
            _kept("upper tail", max(worst(tail, settings.upper) for tail in upper.values()), "upper tail"),
            _kept("lower tail", max(worst(tail, settings.lower) for tail in lower.values()), "lower tail"),
            Conclusion(
                "upper tail for delta <= 1 only: largest probability / bound",
                "<=",
                0.0,
                max(worst(tail, small) for tail in upper.values()),
                log10=True,
                claimed=False,
            ),
        ),
        numbers={"lower tail, mu = 100, delta = 0.2": exact, "its bound": bound},
        remark="The upper bound is right for delta <= 1; the lower one has exp(-delta^2 mu/2) in its place.",
    )


@claim(
    "P1/lemma-d.6",
    place="Appendix D.2, Lemma D.6",
    title="Khintchine's inequality",
    quote="""Then there are constants C > 0 so that for all t > 0 Pr[|sum_i z_i sigma_i| >= t |z|_2] <=
        exp(-C t^2).""",
    statement="""There is a constant C > 0 with P(|sum z_i sigma_i| >= t |z|) <= exp(-C t^2) for all t > 0 and
        independent signs sigma.""",
    quick={"n": 1, "constants": [1e-6, 1e-3, 0.1, 0.5]},
    seeds=1,
    seconds=0.1,
)
def khintchine(settings: Settings, seed: int) -> Finding:
    """One sign and t = 1: the left side is 1, the right below 1 for every C > 0."""
    ratios = {C: worst(signs_tail(settings.n, C, 1.0), [1.0]) for C in settings.constants}
    return Finding(
        conclusions=(_kept("t = 1, best of the constants", min(ratios.values())),),
        numbers={f"probability / bound, C = {C:g}": 10**ratio for C, ratio in ratios.items()},
        remark="With one sign the left side is 1 at t = 1, and exp(-C) is below 1 for every C > 0.",
    )


@claim(
    "P1/lemma-d.8",
    place="Appendix D.2, Lemma D.8",
    title="Tails of a chi-square variable",
    quote="""Pr[X - k sigma^2 >= (2 sqrt(kt) + 2t) sigma^2] <= exp(-t), Pr[X - k sigma^2 >= 2 sqrt(kt)
        sigma^2] <= exp(-t).""",
    statement="""A chi-square variable of k degrees exceeds its mean by 2 sqrt(kt) + 2t with probability at
        most e^-t, and by 2 sqrt(kt) as well.""",
    quick={"degrees": [1, 2, 4, 16], "places": [0.5, 1.0, 4.0, 9.0]},
    seeds=1,
    seconds=0.1,
)
def chi_square(settings: Settings, seed: int) -> Finding:
    """One degree and t = 9: P(X - 1 >= 6) = .0082 against e^-9 = .00012."""
    first = [chi_square_tail(k, lambda t, k=k: 2 * math.sqrt(k * t) + 2 * t, True) for k in settings.degrees]
    second = [chi_square_tail(k, lambda t, k=k: 2 * math.sqrt(k * t), True) for k in settings.degrees]
    exact, bound = second[0](9.0)
    return Finding(
        conclusions=(
            _kept("first line", max(worst(tail, settings.places) for tail in first), "first line"),
            _kept("second line", max(worst(tail, settings.places) for tail in second), "second line"),
        ),
        numbers={"second line, k = 1, t = 9": exact, "its bound": bound},
        remark="The second line is the lower tail of Laurent and Massart, with the sign of the upper one.",
    )


@claim(
    "P1/lemma-d.9",
    place="Appendix D.2, Lemma D.9",
    title="Tail of a sub-exponential variable",
    quote="Pr[|X - mu| >= t] <= exp(-0.5 min{t^2/sigma^2, t/alpha})",
    statement="""If E e^(lX) <= exp(l^2 sigma^2/2) for |l| < 1/alpha, then both tails together are at most
        exp(-0.5 min(t^2/sigma^2, t/alpha)).""",
    quick={"n": 1, "alpha": 1.0, "places": [1.0]},
    seeds=1,
    seconds=0.1,
)
def sub_exponential(settings: Settings, seed: int) -> Finding:
    """One sign: E e^(lX) = cosh l <= e^(l^2/2), and P(|X| >= 1) = 1 > e^(-1/2)."""
    places = [l / 50 for l in range(-49, 50)]
    moment = max(math.cosh(l) / math.exp(l * l / 2) for l in places)
    return Finding(
        hypotheses=(),
        conclusions=(_kept("a sign", worst(signs_tail(settings.n, 0.5, 1.0), settings.places)),),
        numbers={"largest E e^(lX) / e^(l^2/2), sigma = 1": moment},
        remark="A sign belongs to SE(1, alpha) for every alpha; both tails need a factor 2, and the "
        "condition is on X less its mean.",
    )


@claim(
    "P1/lemma-d.10",
    place="Appendix D.2, Lemma D.10",
    title="Matrix Chernoff bound",
    quote="""Pr[lambda_min(sum X_i) <= (1 - delta)mu_min] <= d exp(-delta^2 mu_min/B) for delta in (0, 1],
        Pr[lambda_max(sum X_i) >= (1 + delta)mu_max] <= d exp(-delta^2 mu_max/(4B)) for delta >= 0.""",
    statement="""For n positive semi-definite d x d matrices of norm at most B, drawn without replacement, the
        smallest eigenvalue of the sum is below (1 - delta) times its mean with probability at most d
        exp(-delta^2 mu_min/B), and the largest above (1 + delta) times its own with probability at most d
        exp(-delta^2 mu_max/(4B)).""",
    quick={**_CHERNOFF, "n": 10_000, "urn": 1_000_000},
    seeds=1,
    seconds=0.1,
)
def matrix_chernoff(settings: Settings, seed: int) -> Finding:
    """d = 1 and B = 1: numbers 0 and 1 drawn from an urn, whose tails are those of Lemma D.3 nearly."""
    upper, lower = (
        {mu: urn_tail(settings.urn, settings.n, mu, side, rate) for mu in settings.means}
        for side, rate in ((True, lambda delta: delta**2 / 4), (False, lambda delta: delta**2))
    )
    exact, bound = lower[100.0](0.2)
    far, far_bound = upper[1.0](9.0)
    return Finding(
        conclusions=(
            _kept("lower tail", max(worst(tail, settings.lower) for tail in lower.values()), "lower tail"),
            _kept("upper tail", max(worst(tail, settings.upper) for tail in upper.values()), "upper tail"),
        ),
        numbers={
            "lower tail, mu = 100, delta = 0.2": exact,
            "its bound": bound,
            "upper tail, mu = 1, delta = 9": far,
            "the bound on it": far_bound,
        },
        remark="Matrices of one row and column are enough. The lower tail lacks a factor 2 in the exponent; "
        "the upper one is of order delta log delta, not delta^2, for delta large.",
    )
