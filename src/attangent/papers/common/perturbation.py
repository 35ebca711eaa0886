"""When no neuron moves by more than R: thirteen bounds on softmax, and the change of a kernel."""

import math

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit import Conclusion, Figure, Finding, Hypothesis, Series
from attangent.papers.common.bounds import LOG10_E
from attangent.papers.common.figures import plot

AT_THEOREM = "1, at the theorem's m"
"""The part of the lemma that says part 1 for the number of neurons that the theorem requires."""


def thirteen_parts(X: Tensor, W: Tensor, B: float, R: float) -> Finding:
    """Check the parts of P2 Lemma B.1 (P1 Lemma K.1) for weights W and points X.

    Each neuron moves by R along one of the points; `B` bounds |<w, x>|.
    """
    m = W.shape[1]
    toward = X[torch.arange(m) % len(X)].T  # each neuron moves along one of the points
    parts = _parts(X, W, W + R * toward / toward.norm(dim=0))
    e = LOG10_E
    bounds = (
        math.log10(B), math.log10(B + R), math.log10(2 * R),
        B * e, (B + R) * e, math.log10(4 * R), math.log10(R) + (B + R) * e,
        math.log10(m * R) + (B + R) * e, math.log10(R / m) + (3 * B + 2 * R) * e,
        2 * B * e - math.log10(m), (2 * B + 2 * R) * e - math.log10(m),
        math.log10(R / m) + (4 * B + 3 * R) * e, math.log10(R) + (4 * B + 3 * R) * e,
    )  # fmt: skip
    rounding = 1e-9  # part 3 is attained if a neuron moves along a unit point
    rows = [
        (name, math.log10(value), bound) for (name, value), bound in zip(parts.items(), bounds, strict=True)
    ]
    return Finding(
        hypotheses=(
            Hypothesis("largest |x|", "<=", 1 + 1e-12, X.norm(dim=1).max().item()),
            Hypothesis("move R", "<=", 0.01, R),
        ),
        conclusions=tuple(
            Conclusion(f"Part {i}: {name}", "<=", bound + rounding, measured, log10=True, part=f"{i}")
            for i, (name, measured, bound) in enumerate(rows, 1)
        ),
        numbers={"B": B, "largest |<w, x>|": parts["|<w_r, x_i>|"]},
        figures=(
            plot(
                "Thirteen parts: bound and measured value",
                ("part", "decimal logarithm"),
                Series.of("bound", range(1, 14), [bound for *_, bound in rows], "points"),
                Series.of("measured", range(1, 14), [measured for _, measured, _ in rows], "points"),
                log="",
            ),
        ),
    )


def growth_with_neurons(products: Tensor) -> Conclusion:
    """Return the trend of max |<w_r, x_i>| over the first m neurons, over log m.

    B does not depend on m, so its exponent is 0; the maximum of m Gaussians has the exponent 1/2.
    """
    m = products.shape[1]
    counts = [m // 4**k for k in range(5, -1, -1) if m // 4**k > 1]
    largest = [products[:, :count].abs().max().item() for count in counts]
    logarithms = [math.log(count) for count in counts]
    name = "largest |<w_r, x_i>| over log m; B has exponent 0"
    return Conclusion.of_trend(name, "<=", 0.0, logarithms, largest, claimed=False)


def beyond_bound(B: float, sigma: float, delta: float, log10_m: float) -> Conclusion:
    """Return the line that of 10^log10_m products, N(0, sigma^2) each, fewer than delta are expected above B.

    Part 1 for all neurons needs that: if m q is the mean number beyond B, it holds with probability (1-q)^m.
    """
    from scipy.special import log_ndtr

    tail = (math.log(2) + float(log_ndtr(-B / sigma))) * LOG10_E
    name = "expected number of |<w_r, x>| above B at the theorem's smallest m, for |x| = 1"
    return Conclusion(name, "<=", math.log10(delta), log10_m + tail, log10=True, part=AT_THEOREM)


def _parts(X: Tensor, W: Tensor, V: Tensor) -> dict[str, float]:
    """Return the largest value of each of the thirteen quantities over points and neurons."""
    inner = X @ W
    moved = X @ V
    pairs = ((V - W).T @ (X[:, None, :] + X[None, :, :]).reshape(-1, X.shape[1]).T).abs().max()
    alpha = inner.exp().sum(dim=1)
    alpha_moved = moved.exp().sum(dim=1)
    S = torch.softmax(inner, dim=1)
    S_moved = torch.softmax(moved, dim=1)
    values = {
        "|<w_r, x_i>|": inner.abs().max(),
        "|<v_r, x_i>|": moved.abs().max(),
        "|<w_r - v_r, x_i + x_j>|": pairs,
        "exp<w_r, x_i> and its inverse": inner.abs().max().exp(),
        "exp<v_r, x_i> and its inverse": moved.abs().max().exp(),
        "|exp<w_r - v_r, x_i + x_j> - 1|": torch.expm1(pairs),
        "|exp<w_r, x_i> - exp<v_r, x_i>|": (inner.exp() - moved.exp()).abs().max(),
        "|alpha_i - alpha~_i|": (alpha - alpha_moved).abs().max(),
        "|1/alpha_i - 1/alpha~_i|": (1 / alpha - 1 / alpha_moved).abs().max(),
        "S_ir": S.max(),
        "S~_ir": S_moved.max(),
        "|S_ir - S~_ir|": (S - S_moved).abs().max(),
        "|<z, S_i - S~_i>| for |z| <= 1": (S - S_moved).abs().sum(dim=1).max(),
    }
    return {name: value.item() for name, value in values.items()}


Changes = dict[float, Tensor]
"""H(W + R U) - H(W) per radius R, for one move U."""


def random_move(W: Tensor, seed: int) -> Tensor:
    """Draw a unit vector per neuron."""
    U = torch.randn(W.shape, generator=generator(seed, "perturbation"), dtype=torch.float64)
    return U / U.norm(dim=0)


def largest_over_radius(changes: Changes) -> float:
    """max_R |H(W + R U) - H(W)|_F / R."""
    return max(change.norm().item() / R for R, change in changes.items())


def entry_line(changes: dict[str, Changes], log10_bound: float) -> Conclusion:
    """Return the line of part 1: the largest change of an entry, relative to R."""
    largest = max(
        change.abs().max().item() / R for of_move in changes.values() for R, change in of_move.items()
    )
    name = "largest change of an entry / R"
    return Conclusion(name, "<=", log10_bound, math.log10(largest), log10=True, part="1")


def norm_line(changes: dict[str, Changes], log10_bound: float) -> Conclusion:
    """Return the line of part 2: the largest change of the kernel in the Frobenius norm, relative to R."""
    largest = math.log10(max(map(largest_over_radius, changes.values())))
    return Conclusion("|H(W) - H(W~)|_F / R", "<=", log10_bound, largest, log10=True, part="2")


def change_figure(changes: dict[str, Changes], what_moves: str) -> Figure:
    return plot(
        "Change of the kernel",
        (f"distance R that every {what_moves} moves", "|H(W) - H(W~)|_F"),
        *(
            Series.of(name, list(of_move), [change.norm().item() for change in of_move.values()])
            for name, of_move in changes.items()
        ),
    )
