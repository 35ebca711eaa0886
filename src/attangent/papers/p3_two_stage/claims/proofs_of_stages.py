"""Exact proofs that Theorems 1 to 4 and Corollary 1 of P3 fail as printed.

Assumption 1 is taken at its order: tau_0 = lambda = 1/sqrt(log d), L = d^p.
"""

# sympy's functions declare wider types than they return
# pyright: reportOperatorIssue=false

from collections.abc import Iterator
from itertools import product
from typing import Any

import sympy as sp

from attangent.audit import Step
from attangent.papers.common.exact import proof
from attangent.papers.p3_two_stage.claims.proofs_of_patterns import half_slope


@proof("a.1, r/u fixed")
def theorem_1() -> Iterator[Step]:
    """With r/u fixed, the noise separates the classes with a probability that does not depend on d."""
    a, b = sp.symbols("a b", positive=True)
    ratio = sp.Rational(1, 20)
    apart = 2 / sp.pi * sp.atan(ratio)
    mean = a / 2 - (a + b + sp.Max(a - b, 0)) / 4
    yield Step(
        "For a query q let a = z'Vq and b = zeta'Vq. If |b| <= |a| the answers of both classes cancel.",
        r"\tfrac{a}{2}-\tfrac14\big((a+b)+(a-b)\big)=0\quad(0<b\le a)",
        sp.simplify(a / 2 - ((a + b) + (a - b)) / 4) == 0,
    )
    yield Step(
        "If |b| > |a| they do not.",
        r"\tfrac{a}{2}-\tfrac14(a+b)=-\tfrac{b-a}{4}\quad(b>a>0)",
        sp.simplify(mean.subs({a: 1, b: 3}) + sp.Rational(1, 2)) == 0,
    )
    yield Step(
        "Under the noise weights a and b are independent normal variables with standard deviations "
        "in the ratio u to r: |b| > |a| has probability (2/pi) atan(r/u), whatever d. At r/u = 1/20 "
        "it is more than 3 in 100.",
        r"P(|b|>|a|)=\tfrac2\pi\arctan\tfrac{1}{20}>\tfrac{3}{100}",
        bool(apart > sp.Rational(3, 100)),
    )
    yield from _gradient_of_one_query(ratio)


def _gradient_of_one_query(ratio: Any) -> Iterator[Step]:
    """Steps by which the gradient, a sum over queries too, has a fixed size with a fixed probability."""
    third = sp.Rational(1, 3)
    three_quarters = sp.Rational(3, 4)
    corners = product((third, -third), (2, -2), (three_quarters, -three_quarters), (third, -third))
    share = (
        sp.erf(ratio / (3 * sp.sqrt(2)))  # |a| <= 1/3; a, b, c, e have the deviations u/r, 1, 1, r/u
        * (1 - sp.erf(sp.sqrt(2)))  # |b| >= 2
        * (sp.erf(1 / sp.sqrt(2)) - sp.erf(1 / (2 * sp.sqrt(2))))  # 1/2 <= |c| <= 1
        * sp.erf(1 / (3 * ratio * sp.sqrt(2)))  # |e| <= 1/3
    )
    yield Step(
        "The gradient sums over the queries too, and vanishes if all three see the same signs. Let a = "
        "z'Vz, b = z'V zeta, c = zeta'Vz and e = zeta'V zeta, in units of tau_0 u r. If |a| <= 1/3, |b| "
        ">= 2, 1/2 <= |c| <= 1 and |e| <= 1/3, only the query z sees different signs: for the other two "
        "|b| - |a| exceeds |c| + |e|.",
        r"\big\|E[y_xy_q\mathbf 1(x^\top Vq>0)\,xq^\top]\big\|_F="
        r"\tfrac18\|(z\pm\zeta)z^\top\|_F\ge\tfrac18u^2",
        bool(2 - third > 1 + third)
        and all(_is_an_eighth_of_z(_mean_gradient(*corner)) for corner in corners),
    )
    yield Step(
        "The four are independent normal variables with deviations u/r, 1, 1 and r/u: the probability of "
        "this depends on r/u only, not on d. A crude lower bound at r/u = 1/20 is 1 in 6000.",
        r"\mathrm{erf}\tfrac{r/u}{3\sqrt2}\,(1-\mathrm{erf}\sqrt2)"
        r"\big(\mathrm{erf}\tfrac1{\sqrt2}-\mathrm{erf}\tfrac1{2\sqrt2}\big)"
        r"\,\mathrm{erf}\tfrac{u/r}{3\sqrt2}>\tfrac1{6000}",
        bool(share > sp.Rational(1, 6000)),
    )


def _mean_gradient(a: Any, b: Any, c: Any, e: Any) -> list[list[Any]]:
    """Return the mean of y_x y_q 1(x'Vq > 0) x q' in the frame of z and zeta (token by query)."""
    kinds = [(0, sp.Rational(1, 2)), (1, -sp.Rational(1, 4)), (-1, -sp.Rational(1, 4))]  # sign, label * share
    total = [[sp.Integer(0)] * 2 for _ in range(2)]
    for (s, weight), (t, query_weight) in product(kinds, repeat=2):
        if a + t * b + s * (c + t * e) > 0:
            for i, j in product(range(2), repeat=2):
                total[i][j] += weight * query_weight * s**i * t**j
    return total


def _is_an_eighth_of_z(gradient: list[list[Any]]) -> bool:
    """Whether the gradient is +-(z +- zeta) z'/8."""
    return [[8 * abs(entry) for entry in row] for row in gradient] == [[1, 0], [1, 0]]


@proof("b.1")
def theorem_2() -> Iterator[Step]:
    """(b.1) contradicts the paper's own Proposition 4."""
    d = sp.symbols("d", positive=True)
    norm = 1 + 1 / sp.sqrt(d)
    eps = norm**2 / sp.sqrt(d)  # L = d^2
    most = norm**2 / 2 * sp.sqrt(sp.log(d))  # K/lambda with K <= |x|^2/2
    required = d * sp.log(1 / eps)
    yield Step(
        "The slope of the loss is at most 1, so the gradient over W has a norm of at most K = "
        "|x|^2/2 for tokens of norm |x|. By Proposition 4 the signal stays below K/lambda.",
        r"\|\overline W_t\|_F\le\frac K\lambda\le\tfrac12|x|^2\sqrt{\log d}",
        sp.limit(1 / (1 + sp.exp(-d)), d, sp.oo) == 1,
    )
    yield Step(
        "(b.1) wants a norm of order d log(1/eps), larger by a factor that grows without end.",
        r"\frac{d\log(1/\varepsilon_{W,1})}{K/\lambda}\to\infty",
        sp.limit(required / most, d, sp.oo) == sp.oo,
    )
    yield Step(
        "At d = 16 and L = d^2 the factor is already above 2.",
        r"\frac{16\log(1/\varepsilon)}{K/\lambda}>2",
        bool((required / most).subs(d, 16) > 2),
    )


@proof("c.2")
def theorem_3() -> Iterator[Step]:
    """Convexity keeps the mean answer to z at or below 0 for every V, so half of the loss stays."""
    P, Q = sp.symbols("P Q", positive=True)
    t = sp.symbols("t", real=True)
    loss = sp.log(1 + sp.exp(-t))
    regions = (P + Q - (P + Q), P - (P - Q), P, sp.Integer(0))  # relu(p) + relu(q) - relu(p + q) by signs
    yield Step(
        "For a = z'Vq, b = zeta'Vq let p = a + b, q = a - b. In each of the four cases of signs "
        "(both positive; p positive, q negative with a positive or a negative sum; both negative) "
        "the ReLU of the sum is at most the sum of the ReLUs.",
        r"\mathrm{relu}(a+b)+\mathrm{relu}(a-b)\ge\mathrm{relu}(2a)=2\,\mathrm{relu}(a)",
        [bool(sp.expand(region) >= 0) for region in regions] == [True] * 4,
    )
    yield Step(
        "With balanced labels the mean answer to every query is at most 0.",
        r"E\,g=\big(1-\tfrac1L\big)\big(\tfrac12\mathrm{relu}(a)-\tfrac14(\mathrm{relu}(a+b)+"
        r"\mathrm{relu}(a-b))\big)\le 0",
        sp.Rational(1, 2) - sp.Rational(1, 4) * 2 == 0,
    )
    yield Step(
        "The logistic loss is convex and falls, so by Jensen the loss on the query z is at least log 2.",
        r"E\,\ell(g)\ge\ell(E\,g)\ge\ell(0)=\log 2",
        loss.subs(t, 0) == sp.log(2)
        and sp.simplify(sp.diff(loss, t, 2) - sp.exp(t) / (1 + sp.exp(t)) ** 2) == 0
        and bool(sp.diff(loss, t).subs(t, 0) < 0),
    )
    yield Step(
        "The query is z with probability 1/2. The printed bound tends to 0, and with the constant 1 "
        "is below log(2)/2 from d = 10^79 on.",
        r"K^2\ge\tfrac12\log 2>(\log d)^{-1/4}+(\log d)^{-1/2}\quad(d\ge 10^{79})",
        bool(sp.log(2) / 2 > _slowest(79)) and not bool(sp.log(2) / 2 > _slowest(78)),
    )


def _slowest(decades: int) -> Any:
    """Return (log d)^(-1/4) + (log d)^(-1/2) at d = 10^decades."""
    log = decades * sp.log(10)
    return log ** sp.Rational(-1, 4) + log ** sp.Rational(-1, 2)


@proof("d.1")
def theorem_4() -> Iterator[Step]:
    """Stage 2 completes the way to the balance of decay and gradient, whatever L."""
    d, u, r = sp.symbols("d u r", positive=True)
    log = sp.log(d)
    move = sp.exp(-1) * half_slope(d) ** 2 / 2 * sp.sqrt(log)  # e^-1 mu^2 / (8 lambda)

    def over_bound(power: Any) -> Any:
        square = (u + r) ** 4 * d / d**power
        return move / (square / (sp.log(sp.sqrt(d**power / d)) ** 2 * sp.sqrt(log)))

    yield Step(
        "While answers are near 0 the mean gradient over W is -(mu^2/8) w* w*', so the signal tends "
        "to mu^2/(8 lambda). Stage 1, one decay time, leaves the fraction 1/e of the way.",
        r"e^{-1}\frac{\mu^2}{8\lambda}=\frac{(1+\sqrt{2/\pi})^2\sqrt{\log d}}{8e\,d}",
        sp.simplify(move * 8 * sp.E * d / sp.sqrt(log) - (1 + sp.sqrt(2 / sp.pi)) ** 2) == 0,
    )
    yield Step(
        "Stage 2 lasts log^2(1/eps)/eps^2 decay times and covers it. The printed bound is smaller "
        "by a factor that grows without end at L = d^3 and at L = d^2.",
        r"\frac{\text{move}}{\varepsilon^2/(\log^2(1/\varepsilon)\sqrt{\log d})}\to\infty",
        all(sp.limit(over_bound(power), d, sp.oo) == sp.oo for power in (2, 3)),
    )
    yield Step(
        "At L = d^1.5 the bound is kept.",
        r"\frac{\text{move}}{\text{bound}}\to 0\quad(L=d^{3/2})",
        sp.limit(over_bound(sp.Rational(3, 2)), d, sp.oo) == 0,
    )


@proof("(a) growth")
def corollary_1() -> Iterator[Step]:
    """The trace of a product of two trained factors decays twice."""
    w, eta, decay, slope = sp.symbols("w eta lambda alpha", positive=True)
    c = 1 - eta * decay
    factor = c * sp.sqrt(w) - eta * slope * sp.sqrt(w)
    t = sp.symbols("t", positive=True)
    yield Step(
        "At d = 1, where all assumptions of Appendix H hold exactly, a step maps w = w_K w_Q to",
        r"w\mapsto(1-\eta\lambda)^2w-2\eta(1-\eta\lambda)\alpha w+\eta^2\alpha^2w",
        sp.expand(factor**2 - (c**2 * w - 2 * eta * c * slope * w + eta**2 * slope**2 * w)) == 0,
    )
    yield Step(
        "The paper has 1 - eta lambda in place of its square.",
        r"(1-\eta\lambda)-(1-\eta\lambda)^2=\eta\lambda(1-\eta\lambda)>0",
        sp.expand(c - c**2 - eta * decay * c) == 0,
    )
    yield Step(
        "After t_1 = 1/(eta lambda) steps the printed trace is too large by the factor e, in the "
        "limit of small steps.",
        r"\frac{(1-1/t)^t}{(1-1/t)^{2t}}\to e",
        sp.limit((1 - 1 / t) ** (-t), t, sp.oo) == sp.E,
    )


@proof("W")
def signal_and_noise() -> Iterator[Step]:
    """With tau_0 at its largest order the signal of W vanishes compared with the noise."""
    d, tau = sp.symbols("d tau_0", positive=True)
    decay = 1 / sp.sqrt(sp.log(d))
    ratio = (sp.E - 1) * half_slope(d) ** 2 / 2 / (decay * tau * d)
    yield Step(
        "At t_1 the signal is (1 - 1/e) mu^2/(8 lambda), and the noise is what decay leaves of the "
        "start, tau_0 d/e.",
        r"\frac{(1-e^{-1})\mu^2/(8\lambda)}{e^{-1}\tau_0d}=\frac{(e-1)\mu^2}{8\lambda\tau_0d}",
        sp.simplify((1 - 1 / sp.E) / (1 / sp.E) - (sp.E - 1)) == 0,
    )
    yield Step(
        "At tau_0 = 1/sqrt(log d) the ratio tends to 0.",
        r"\frac{(e-1)(1+\sqrt{2/\pi})^2\log d}{8d^2}\to 0",
        sp.limit(ratio.subs(tau, 1 / sp.sqrt(sp.log(d))), d, sp.oo) == 0,
    )
    yield Step(
        "It is below 1 from d = 2 on. For tau_0 -> 0, which Theorems 1 and 2 ask for, the sentence holds.",
        r"\frac{(e-1)(1+\sqrt{2/\pi})^2\log 2}{32}<1",
        bool(ratio.subs(tau, 1 / sp.sqrt(sp.log(d))).subs(d, 2) < 1)
        and sp.limit(ratio.subs(d, 2), tau, 0, "+") == sp.oo,
    )
