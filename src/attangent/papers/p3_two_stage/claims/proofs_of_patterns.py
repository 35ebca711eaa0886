"""Exact proofs on noise in P3: which tokens are active, what they answer, how many signs change.

Assumption 1 is taken at its order: tau_0 = lambda = 1/sqrt(log d) and L = d^p. mu = (1 + sqrt(2/pi))/sqrt(d)
is the mean of y <w*, x> over a P token x with label y.
"""

# sympy's functions declare wider types than they return
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportIndexIssue=false

from collections.abc import Iterator
from typing import Any

import sympy as sp

from attangent.audit import Step
from attangent.papers.common.exact import proof


@proof()
def active_tokens() -> Iterator[Step]:
    """The mean that Hoeffding's inequality is applied without."""
    d = sp.symbols("d", positive=True)
    i, L = sp.symbols("i L", integer=True, positive=True)
    s = sp.symbols("s", real=True, nonzero=True)
    both = sp.Heaviside(s) + sp.Heaviside(-s)

    def share_above(bound: int, tokens: int) -> Any:
        return sum(sp.binomial(tokens, k) for k in range(bound, tokens + 1)) / sp.Integer(2) ** tokens

    yield Step(
        "W and -W have the same law, and exactly one of them makes a token active.",
        r"\mathbf 1(s\ge 0)+\mathbf 1(-s\ge 0)=1\;(s\ne 0)\;\Rightarrow\;P(\text{active})=\tfrac12",
        all(both.subs(s, value) == 1 for value in (-2, sp.Rational(1, 3))),
    )
    yield Step(
        "The mean number of active tokens is half of the prompt, and Hoeffding bounds the distance to it.",
        r"E\,\|\mathbf 1(X_1^\top\widetilde W x_L)\|_1=\tfrac{L}{2}",
        sp.summation(sp.Rational(1, 2), (i, 1, L)) == L / 2,
    )
    yield Step(
        "At L = d^2 the mean exceeds every multiple of the printed bound.",
        r"\frac{d^2/2}{\sqrt{\log d}}\to\infty",
        sp.limit(d**2 / 2 / sp.sqrt(sp.log(d)), d, sp.oo) == sp.oo,
    )
    yield Step(
        "The number of active P tokens is binomial. With the constant 10 and L = d^2 it exceeds the "
        "bound at d = 5 with probability 1/2, where 1/5 is allowed; at d = 4 it does not.",
        r"P(\mathrm{Bin}(25,\tfrac12)\ge 13)=\tfrac12>\tfrac15,\quad 12<10\sqrt{\log 5}<13;\quad "
        r"P(\mathrm{Bin}(16,\tfrac12)\ge 12)<\tfrac14,\quad 11<10\sqrt{\log 4}<12",
        share_above(13, 25) == sp.Rational(1, 2)
        and bool(share_above(12, 16) < sp.Rational(1, 4))
        and bool(12 < 10 * sp.sqrt(sp.log(5)) < 13)
        and bool(11 < 10 * sp.sqrt(sp.log(4)) < 12),
    )


@proof()
def equation_21() -> Iterator[Step]:
    """The answer of the noise weights has a mean, which a longer prompt does not average away."""
    d = sp.symbols("d", positive=True)
    s = sp.symbols("s", real=True)

    def over_bound(power: int) -> Any:
        return half_slope(d) / sp.sqrt(d * sp.log(d) / d**power)

    yield Step(
        "(x, y) and (-x, -y) have the same law, and relu(s) - relu(-s) = s.",
        r"E[y\,\mathrm{relu}(s)]=\tfrac12E[y(\mathrm{relu}(s)-\mathrm{relu}(-s))]=\tfrac12E[ys]",
        all((sp.Max(s, 0) - sp.Max(-s, 0) - s).subs(s, value) == 0 for value in (-3, 0, 2)),
    )
    yield Step(
        "Given W and x_L the mean answer is (mu/2) w*'W x_L, normal over W with the standard "
        "deviation tau_0 |x_L| mu/2.",
        r"\tfrac12\langle E[yx],Wx_L\rangle=\tfrac\mu2\,w^{*\top}Wx_L,\quad\mu=(1+\sqrt{2/\pi})/\sqrt d",
        sp.simplify(half_slope(d) * 2 * sp.sqrt(d) - 1 - sp.sqrt(2 / sp.pi)) == 0,
    )
    yield Step(
        "Divided by the printed bound it tends to infinity at L = d^3.",
        r"\frac{\mu/2}{\sqrt{d\log d/L}}\to\infty\quad(L=d^3)",
        sp.limit(over_bound(3), d, sp.oo) == sp.oo,
    )
    yield Step(
        "It tends to 0 at L = d^2, where the printed bound is kept.",
        r"\frac{\mu/2}{\sqrt{d\log d/L}}\to 0\quad(L=d^2)",
        sp.limit(over_bound(2), d, sp.oo) == 0,
    )


def half_slope(d: Any) -> Any:
    """Return mu/2 for a symbol d."""
    return (1 + sp.sqrt(2 / sp.pi)) / (2 * sp.sqrt(d))


@proof()
def equation_23() -> Iterator[Step]:
    """The answer at W* grows, and the printed bound tends to 0."""
    d, K = sp.symbols("d K", positive=True)
    log = sp.log(d)
    eps = sp.sqrt(d / d**2)  # tau_0 sqrt(d log d / L) with tau_0 = 1/sqrt(log d), L = d^2
    answer = d * sp.log(1 / eps) * half_slope(d) * 2 * half_slope(d)

    def bound(power: Any) -> Any:
        return sp.sqrt(d) * log * (K * log) ** sp.Rational(4, 3) * (d**power) ** sp.Rational(-1, 3)

    yield Step(
        "Half of the tokens are active, whatever W, so the mean answer at W* is d log(1/eps) mu^2/2.",
        r"d\log(1/\varepsilon)\tfrac{\mu}{2}\mu=\tfrac12(1+\sqrt{2/\pi})^2\log(1/\varepsilon)",
        sp.simplify(answer - (1 + sp.sqrt(2 / sp.pi)) ** 2 / 2 * sp.log(1 / eps)) == 0,
    )
    yield Step(
        "It grows without bound.",
        r"\log(1/\varepsilon_{W,1})=\tfrac12\log d\to\infty\quad(L=d^2)",
        sp.limit(answer, d, sp.oo) == sp.oo,
    )
    yield Step(
        "The printed bound tends to 0 for every K at L = d^2. At L = d^1.5 it does not.",
        r"\frac{\sqrt d\log d}{L}\Big(\frac{K}{\lambda\tau_0}\Big)^{4/3}L^{2/3}="
        r"K^{4/3}(\log d)^{7/3}d^{-1/6}\to 0",
        sp.limit(bound(2), d, sp.oo) == 0 and sp.limit(bound(sp.Rational(3, 2)), d, sp.oo) == sp.oo,
    )


@proof()
def definition_5() -> Iterator[Step]:
    """H_1 is empty in most draws, which is far from its mean."""
    arc = sp.atan(sp.Rational(1, 5)) / (2 * sp.pi)  # r/u = 1/5

    def outside(d: int) -> bool:
        return bool(d * arc > sp.sqrt(sp.log(2 * d) / 2))

    yield Step(
        "A token belongs to H_1 with probability atan(r/u)/(2 pi), and a prompt has three different "
        "tokens, so H_1 is empty in at least 9 of 10 draws at r/u = 1/5.",
        r"P(H_1=\emptyset)\ge 1-\tfrac{3}{2\pi}\arctan\tfrac15>\tfrac{9}{10}",
        bool(1 - 3 * arc > sp.Rational(9, 10)),
    )
    yield Step(
        "An empty H_1 is as far from the mean as the mean itself. At L = d^2 that exceeds the "
        "printed distance from d = 49 on.",
        r"\tfrac{d^2}{2\pi}\arctan\tfrac15>\sqrt{\tfrac12 d^2\log(2d)}\quad(d\ge 49)",
        outside(49) and not outside(48) and outside(10**6),
    )
    yield Step(
        "The printed probability of that is at most 1/d.",
        r"\tfrac{9}{10}>\tfrac1d\quad(d\ge 2)",
        bool(sp.Rational(9, 10) > sp.Rational(1, 2)),
    )


@proof()
def equation_18() -> Iterator[Step]:
    """A token that tells z + zeta from z - zeta is a class of tokens."""
    d, C, t = sp.symbols("d C t", positive=True)
    ratio = 1 / sp.log(d)  # r/u
    yield Step(
        "x'V z and x'V zeta are independent normal with standard deviations in the ratio u to r, so "
        "a token is in the set with probability (2/pi) atan(r/u), whatever L.",
        r"P(|x^\top\widetilde Vz|\le|x^\top\widetilde V\zeta|)=1-\tfrac2\pi\arctan\tfrac ur"
        r"=\tfrac2\pi\arctan\tfrac ru",
        sp.simplify(sp.diff(sp.atan(t) + sp.atan(1 / t), t)) == 0 and 2 * sp.atan(1) == sp.pi / 2,
    )
    yield Step(
        "With r/u = 1/log d that is more than the 1/d that the proof allows.",
        r"d\cdot\tfrac2\pi\arctan\tfrac{1}{\log d}\to\infty",
        sp.limit(d * 2 / sp.pi * sp.atan(ratio), d, sp.oo) == sp.oo,
    )
    yield Step(
        "All copies of z are then in the set, L/2 on average. The printed number is a vanishing "
        "fraction of that for every constant.",
        r"\frac{C\,rL\sqrt{\log d}/u}{L/2}=\frac{2C}{\sqrt{\log d}}\to 0",
        sp.limit(2 * C * ratio * sp.sqrt(sp.log(d)), d, sp.oo) == 0,
    )


@proof()
def lemma_6() -> Iterator[Step]:
    """The copies of one token change sign together."""
    L, C = sp.symbols("L C", positive=True)
    a = sp.symbols("a", positive=True)
    yield Step(
        "The score of the token z is normal over the noise weights. With a probability that does not "
        "depend on L, some signal of norm K/lambda turns its sign.",
        r"P(|N(0,1)|\le a)=\mathrm{erf}(a/\sqrt2)>0,\quad a=K/(\lambda\tau_0)",
        bool(sp.erf(1 / sp.sqrt(2)) > sp.Rational(1, 2)) and sp.diff(sp.erf(a / sp.sqrt(2)), a).is_positive,
    )
    yield Step(
        "All copies of z change sign with it: L/2 on average, more than C L^(2/3) beyond L = 8 C^3.",
        r"\tfrac L2>C\,L^{2/3}\iff L>8C^3",
        sp.simplify((L / 2 - C * L ** sp.Rational(2, 3)).subs(L, 8 * C**3)) == 0,
    )
    yield Step(
        "The ratio to the printed bound grows without end.",
        r"\frac{L/2}{L^{2/3}}\to\infty",
        sp.limit(L ** sp.Rational(1, 3) / 2, L, sp.oo) == sp.oo,
    )


@proof()
def lemma_7() -> Iterator[Step]:
    """Stage 2 forgets the noise weights of stage 1."""
    d, u, r = sp.symbols("d u r", positive=True)
    k, s = sp.symbols("k s", positive=True)
    eps = (u + r) ** 2 / sp.sqrt(d)  # L = d^2
    rates = eps * sp.sqrt(r) / sp.sqrt(sp.log(d))  # sqrt(eta_2/eta_1) = lambda eps sqrt(r)
    yield Step(
        "Stage 2 lasts log^2(1/eps)/eps^2 decay times, so the fraction k of the old weights tends "
        "to 0 faster than every power of d.",
        r"k\le\exp(-\log^2(1/\varepsilon)/\varepsilon^2)\to 0",
        sp.limit(sp.log(sp.sqrt(d)) ** 2 * d, d, sp.oo) == sp.oo,
    )
    yield Step(
        "Old and new scores have the correlation rho = k/sqrt(k^2 + s^2), which tends to 0, and "
        "differ in sign with probability arccos(rho)/pi.",
        r"\rho\to 0,\quad\arccos(0)/\pi=\tfrac12",
        sp.limit(k / sp.sqrt(k**2 + s**2), k, 0) == 0 and sp.acos(0) / sp.pi == sp.Rational(1, 2),
    )
    yield Step(
        "The printed fraction tends to 0.",
        r"\sqrt{\eta_2/\eta_1}+\sqrt{\log d/L}=\lambda\varepsilon\sqrt r+\sqrt{\log d}/d\to 0",
        sp.limit(rates + sp.sqrt(sp.log(d)) / d, d, sp.oo) == 0,
    )


@proof()
def noise_variance() -> Iterator[Step]:
    """The geometric sum of the second stage's noise is printed wrongly; the bound below it is right."""
    x = sp.Rational(1, 2)
    step = sp.symbols("x", positive=True)
    true = 1 + (1 - x) ** 2
    printed = (1 - (1 - x) ** 3) / x
    yield Step(
        "For eta_2 lambda = 1/2 and t_2 = 2 the sum is 5/4 and the printed value 7/4.",
        r"\sum_{t'=1}^{2}(1-\tfrac12)^{2(2-t')}=\tfrac54\ne\tfrac74=\frac{1-(1-\frac12)^3}{\frac12}",
        true == sp.Rational(5, 4) and printed == sp.Rational(7, 4),
    )
    yield Step(
        "The sum is (1 - (1-x)^(2 t_2))/(1 - (1-x)^2) with x = eta_2 lambda, which is below 1/x for "
        "x < 1: the bound that follows stands.",
        r"1-(1-x)^2-x=x(1-x)>0",
        sp.expand(1 - (1 - step) ** 2 - step - step * (1 - step)) == 0,
    )
