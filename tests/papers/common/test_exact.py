import math
from fractions import Fraction

import pytest
import sympy
from scipy import integrate

from attangent.audit import Step
from attangent.papers.common.exact import exp_bounds, gaussian_mean, is_zero, proof


@pytest.mark.parametrize(("slope", "sigma"), [(0, 1), (2, 1), (-1, 0.5)])
def test_gaussian_means_agree_with_quadrature(slope, sigma):
    w = sympy.Symbol("w")
    polynomial = 3 * w**4 - w**3 + 2 * w + 1

    def density(x):
        return math.exp(slope * x - x * x / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))

    numeric = integrate.quad(lambda x: float(polynomial.subs(w, x)) * density(x), -12, 12)[0]
    assert float(gaussian_mean(polynomial, w, slope, sympy.Rational(sigma))) == pytest.approx(
        numeric, rel=1e-6
    )


@pytest.mark.parametrize("power", [0, 1, 22, -5, "-27/10", "1/2"])
def test_the_exponential_lies_between_its_bounds(power):
    low, high = exp_bounds(power)
    assert isinstance(low, Fraction)
    assert low <= Fraction(math.exp(float(Fraction(power)))) * (1 + Fraction(1, 10**12))
    assert low <= high <= low * (1 + Fraction(1, 10**10))


def test_zero_and_what_is_not():
    x = sympy.Symbol("x")
    assert is_zero((x + 1) ** 2 - x**2 - 2 * x - 1)
    assert not is_zero(x)


def test_a_proof_is_its_steps_in_order():
    @proof(part="2")
    def of_two_steps():
        """Say what it shows."""
        yield Step("First.", "1 < 2", 1 < 2)
        yield Step("Second.", "2 < 1", 2 < 1)

    argument = of_two_steps()
    assert [step.text for step in argument.steps] == ["First.", "Second."]
    assert (argument.part, [step.holds for step in argument.steps]) == ("2", [True, False])
    assert (of_two_steps.__name__, of_two_steps.__doc__) == ("of_two_steps", "Say what it shows.")
    assert of_two_steps() == argument
