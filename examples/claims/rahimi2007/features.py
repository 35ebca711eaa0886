"""Section 3: z(x) = sqrt(2/D) cos(w'x + b) with Gaussian w gives the Gaussian kernel."""

import math

import numpy as np
from numpy.typing import NDArray

from attangent.audit import Conclusion, Figure, Finding, Hypothesis, Series, Settings, claim

Array = NDArray[np.float64]


def features(X: Array, D: int, rng: np.random.Generator, shift: bool = True) -> Array:
    """(n, D): sqrt(2/D) cos(w_j'x_i + b_j) with w standard normal and b uniform on [0, 2 pi]."""
    W = rng.standard_normal((X.shape[1], D))
    b = rng.uniform(0, 2 * math.pi, D) if shift else np.zeros(D)
    return math.sqrt(2 / D) * np.cos(X @ W + b)


def kernel(X: Array) -> Array:
    """exp(-|x - y|^2 / 2)."""
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    return np.exp(-squares / 2)


def worst_error(X: Array, D: int, rng: np.random.Generator, shift: bool) -> float:
    Z = features(X, D, rng, shift)
    return float(np.abs(Z @ Z.T - kernel(X)).max())


SIZES = {"n": 60, "d": 3, "dimensions": [64, 256, 1024, 4096], "shift": True}


@claim(
    "Rahimi2007/claim-1",
    place="Section 3, Claim 1",
    title="The error of random features falls with the root of their number",
    statement="""On a bounded set the largest error of z(x)'z(y) against the Gaussian kernel falls with the
        number D of features as D^-1/2 up to logarithms.""",
    quick=SIZES,
    full={"n": 400, "dimensions": [256, 1024, 4096, 16384]},
    rests_on=("Rahimi2007/equation-2",),
    seconds=0.1,
)
def uniform_convergence(settings: Settings, seed: int) -> Finding:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (settings.n, settings.d))
    errors = [worst_error(X, D, rng, settings.shift) for D in settings.dimensions]
    return Finding(
        hypotheses=(Hypothesis("diameter of the set", "<=", 2 * math.sqrt(settings.d), _diameter(X)),),
        conclusions=(Conclusion.of_trend("largest error over D", "<=", -0.4, settings.dimensions, errors),),
        figures=(
            Figure(
                "Error of random features",
                "D",
                "largest error",
                (Series.of("measured", settings.dimensions, errors, "points"),),
                log_x=True,
                log_y=True,
            ),
        ),
    )


def _diameter(X: Array) -> float:
    return float(np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2).max()))


@claim(
    "Rahimi2007/equation-2",
    place="Section 3, Equation (2)",
    title="Random features give the kernel in the mean",
    statement="The expectation of z(x)'z(y) over w and b is the Gaussian kernel.",
    quick={**SIZES, "draws": 400},
    full={"draws": 4000},
    seconds=0.3,
)
def in_the_mean(settings: Settings, seed: int) -> Finding:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (8, settings.d))
    products = []
    for _ in range(settings.draws):
        Z = features(X, 64, rng, settings.shift)
        products.append(Z @ Z.T)
    gap = np.abs(np.mean(products, axis=0) - kernel(X))
    error = np.std(products, axis=0) / math.sqrt(settings.draws)
    return Finding(
        conclusions=(Conclusion("largest gap in standard errors", "<=", 5.0, float((gap / error).max())),),
        numbers={"largest gap": float(gap.max())},
    )
