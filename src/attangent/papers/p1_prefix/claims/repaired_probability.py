"""Lemmas D.3, D.6 and D.8 to D.10, repaired."""

import math

from attangent.audit import Finding, Settings, claim
from attangent.papers.p1_prefix.claims.tails import (
    Tail,
    binomial_tail,
    chi_square_tail,
    kept,
    signs_tail,
    urn_tail,
    worst,
)


def _both_tails(upper: float, lower: float) -> Finding:
    return Finding(conclusions=(kept("upper tail", upper), kept("lower tail", lower)))


def _signs(settings: Settings) -> Finding:
    """Compare the tail of n signs, divided by sqrt n, with factor exp(-t^2/2)."""
    tail = signs_tail(settings.n, 0.5, settings.factor)
    return Finding(conclusions=(kept("signs", worst(tail, settings.places)),))


@claim(
    "P1/lemma-d.3-repaired",
    place="Appendix D.2, Lemma D.3, repaired",
    title="Chernoff bound",
    derivation="""Chernoff's method gives (e^x/(1+x)^(1+x))^mu with x = delta or -delta. Then use log(1+x) >=
        2x/(2+x) for x > 0 and (1-x) log(1-x) >= -x + x^2/2 for x in (0, 1).""",
    nature="quotation",
    plain="Chernoff's bound with the right factors.",
    sharp="sharp to leading order for small delta",
    quick={"lower": [0.1, 0.2, 0.4, 0.6], "upper": [0.1, 0.5, 1.0, 3.0, 9.0], "n": 100_000, "half": 2.0},
    sizes=({"mu": 25.0}, {"mu": 400.0}),
)
def chernoff(settings: Settings, seed: int) -> Finding:
    """Pr[X >= (1 + delta) mu] <= exp(-delta^2 mu/(2 + delta)) for all delta > 0, and Pr[X <= (1 - delta) mu]
    <= exp(-delta^2 mu/2) for 0 < delta < 1.
    """
    upper = binomial_tail(settings.n, settings.mu, True, lambda delta: delta**2 / (2 + delta))
    lower = binomial_tail(settings.n, settings.mu, False, lambda delta: delta**2 / settings.half)
    return _both_tails(worst(upper, settings.upper), worst(lower, settings.lower))


@claim(
    "P1/lemma-d.6-repaired",
    place="Appendix D.2, Lemma D.6, repaired",
    title="Khintchine's inequality",
    derivation="""E e^(l z sigma) = cosh(lz) <= e^(l^2 z^2/2); use Chernoff's method with l = t/|z| for both
        tails.""",
    nature="quotation",
    plain="Khintchine's inequality with the factor 2.",
    sharp="the constant 1/2 is sharp: the central limit theorem; the factor 2 is not known to be",
    quick={"places": [0.5, 1.0, 2.0, 3.0], "factor": 2.0},
    sizes=({"n": 1}, {"n": 100}),
)
def khintchine(settings: Settings, seed: int) -> Finding:
    """Pr[|sum_i z_i sigma_i| >= t |z|] <= 2 exp(-t^2/2) for all t > 0 and independent signs sigma."""
    return _signs(settings)


@claim(
    "P1/lemma-d.8-repaired",
    place="Appendix D.2, Lemma D.8, repaired",
    title="Tails of a chi-square variable",
    derivation="Laurent and Massart (2000), Lemma 1: the second line is the lower tail.",
    nature="quotation",
    plain="The two tails of Laurent and Massart.",
    sharp="not known",
    quick={"places": [0.1, 0.5, 1.0, 4.0, 9.0], "lower": True},
    sizes=({"k": 4}, {"k": 64}),
)
def chi_square(settings: Settings, seed: int) -> Finding:
    """Pr[X - k s^2 >= (2 sqrt(kt) + 2t) s^2] <= e^-t and Pr[X - k s^2 <= -2 sqrt(kt) s^2] <= e^-t."""
    k = settings.k
    upper = chi_square_tail(k, lambda t: 2 * math.sqrt(k * t) + 2 * t, True)
    lower = chi_square_tail(k, lambda t: 2 * math.sqrt(k * t), not settings.lower)
    return _both_tails(worst(upper, settings.places), worst(lower, settings.places))


@claim(
    "P1/lemma-d.9-repaired",
    place="Appendix D.2, Lemma D.9, repaired",
    title="Tail of a sub-exponential variable",
    derivation="""Use Chernoff's method for both tails, with l = t/s^2 if that is below 1/alpha, and otherwise
        with l just below 1/alpha.""",
    nature="quotation",
    plain="The sub-exponential tail with the factor 2.",
    sharp="not known",
    quick={"places": [0.5, 1.0, 2.0, 3.0], "factor": 2.0},
    sizes=({"n": 1}, {"n": 100}),
)
def sub_exponential(settings: Settings, seed: int) -> Finding:
    """If E e^(l(X - mu)) <= exp(l^2 s^2/2) for |l| < 1/alpha, then Pr[|X - mu| >= t] <= 2 exp(-0.5
    min(t^2/s^2, t/alpha)).
    """
    # For n signs divided by sqrt n, s = 1 and alpha is arbitrary, so the bound is 2 exp(-t^2/2).
    signs = signs_tail(settings.n, 0.5, settings.factor)
    return Finding(
        conclusions=(
            kept("signs", worst(signs, settings.places)),
            kept(
                "exponential variable, alpha = 2", worst(exponential_tail(settings.factor), settings.places)
            ),
        )
    )


def exponential_tail(factor: float) -> Tail:
    """P(|X - 1| >= t) for X exponential with mean 1, and the bound with s^2 = alpha = 2.

    E e^(l(X-1)) = e^(-l)/(1 - l) is at most e^(l^2) for |l| <= 1/2.
    """

    def tail(t: float) -> tuple[float, float]:
        below = 1 - math.exp(-(1 - t)) if t < 1 else 0.0
        return math.exp(-1 - t) + below, factor * math.exp(-0.5 * min(t * t / 2, t / 2))

    return tail


@claim(
    "P1/lemma-d.10-repaired",
    place="Appendix D.2, Lemma D.10, repaired",
    title="Matrix Chernoff bound",
    derivation="""Tropp (2011), Theorem 2.2, bounds both by d (e^x/(1+x)^(1+x))^(mu/B) with x = -delta or
        delta, also without replacement. Continue as in Lemma D.3.""",
    nature="quotation",
    plain="The matrix Chernoff bound with the right factors.",
    sharp='not sharp: Tropp"s own form is stronger',
    quick={
        "lower": [0.1, 0.2, 0.4, 0.6],
        "upper": [0.1, 0.5, 1.0, 3.0, 9.0],
        "n": 10_000,
        "urn": 1_000_000,
        "half": 2.0,
    },
    sizes=({"mu": 25.0}, {"mu": 400.0}),
)
def matrix_chernoff(settings: Settings, seed: int) -> Finding:
    """Pr[lambda_min(sum X_i) <= (1 - delta) mu_min] <= d exp(-delta^2 mu_min/(2B)) for delta in (0, 1], and
    Pr[lambda_max(sum X_i) >= (1 + delta) mu_max] <= d exp(-delta^2 mu_max/((2 + delta)B)) for delta >= 0.
    """
    # Use 1 x 1 matrices, as in the counter-example to the printed lemma.
    urn = settings.urn
    n = settings.n
    mu = settings.mu
    upper = urn_tail(urn, n, mu, True, lambda delta: delta**2 / (2 + delta))
    lower = urn_tail(urn, n, mu, False, lambda delta: delta**2 / settings.half)
    return _both_tails(worst(upper, settings.upper), worst(lower, settings.lower))
