"""What Theorem 4.2 and the proof of Theorem G.2 take for granted: poly(nd), and a dropped logarithm."""

import math

import torch

from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Hypothesis, Series
from attangent.audit.registry import claim
from attangent.kernels import predict_training
from attangent.papers.common.trends import at_most
from attangent.papers.p2_softmax.claims.softmax_regression import (
    constants,
    kernel_is_definite,
    softmax_regression,
)
from attangent.papers.p2_softmax.networks import softmax_limit


def close_points(h: float) -> torch.Tensor:
    """Two unit vectors in the plane at the angle h."""
    return torch.tensor([[1.0, 0.0], [math.cos(h), math.sin(h)]], dtype=torch.float64)


def steps_to_fit(h: float, sigma: float, epsilon: float) -> tuple[float, float]:
    """lambda at infinite width, and the steps to epsilon at the rate 1/lambda_max, labels +-1."""
    kernel = softmax_limit(close_points(h), sigma=sigma)
    spectrum = torch.linalg.eigvalsh(kernel)
    residual = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    prediction = predict_training(kernel, residual, 1 / spectrum[-1].item())
    high = 1
    while 2 * float(prediction.loss(high)) > epsilon:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if 2 * float(prediction.loss(middle)) <= epsilon else (middle, high)
    return spectrum[0].item(), float(high)


@claim(
    "P2/theorem-4.2-poly",
    place="Section 4, below Theorem 4.2",
    title="poly(nd) neurons and steps fit any data",
    quote="""as we have poly(nd) number of neurons and training steps, the softmax NN can fit any training
        datasets with n number of d-dim training samples""",
    statement="""A number of steps that depends on n and d alone, as a power, is enough to fit any n points
        in d dimensions.""",
    rests_on=("P2/theorem-4.2",),
    quick={"angles": [0.8, 0.4, 0.2, 0.1, 0.05], "sigma": 1.0, "epsilon": 0.01},
    full={"angles": [0.8, 0.4, 0.2, 0.1, 0.05, 0.025, 0.0125]},
    seconds=0.1,
)
def polynomial(settings: Settings, seed: int) -> Finding:
    """Two points at the angle h with labels +-1: n and d are fixed, the steps grow like h^-2."""
    found = [steps_to_fit(h, settings.sigma, settings.epsilon) for h in settings.angles]
    inverse, steps = [1 / h for h in settings.angles], [count for _, count in found]
    return Finding(
        hypotheses=(
            Hypothesis("smallest lambda_min of H*", ">=", 1e-12, min(lam for lam, _ in found)),
            Hypothesis("largest |x|", "<=", 1 + 1e-12, 1.0),
            Hypothesis("largest |y|", "<=", 1.0, 1.0),
        ),
        conclusions=(
            Conclusion.of_trend("steps to epsilon over 1/h, n = d = 2", "<=", at_most(0.0), inverse, steps),
        ),
        numbers={f"lambda at h = {h:g}": lam for h, (lam, _) in zip(settings.angles, found, strict=True)},
        figures=(
            Figure(
                "Steps to fit two points of opposite labels",
                "1 / angle",
                "steps",
                (Series.of("infinite width", inverse, steps),),
                log_x=True,
                log_y=True,
            ),
        ),
        remark="1/lambda is not bounded by a power of nd: close points with different labels make it as "
        "large as one likes. The theorem itself has lambda in it and is not touched. The same on "
        "every seed.",
    )


@claim(
    "P2/theorem-g.2-logarithm",
    place="Appendix G.1, proof of Theorem G.2; Theorem F.2",
    title="The logarithm of Theorem F.2 can be dropped",
    kind="theorem",
    quote="""<= O(1/(lambda sqrt n) log^2(nd/(m lambda))) <= O(1/(lambda sqrt n))""",
    statement="""log^2(nd/(m lambda)) stays bounded for all m that the theorem allows, and
        tau_0 = C/(m lambda) log(nd/(eps_H m lambda)), to which the proof of Theorem F.2 integrates, is
        positive there.""",
    rests_on=("P2/theorem-f.2",),
    quick={"n": 6, "d": 8, "d_out": 4, "m": 1024, "sigma": 1.0, "delta": 0.05, "rate": 0.5,
           "decades": [1, 10, 100, 1000]},
    full={"m": 8192},
    seconds=0.1,
)  # fmt: skip
def logarithm(settings: Settings, seed: int) -> Finding:
    """Arithmetic with the theorem's own m and eps_H = lambda/(2nd): the argument is far below 1, its log^2
    grows.
    """
    p = softmax_regression(settings, seed)
    log_nd, log_lam = math.log10(p.size), math.log10(p.lambda_min)
    least = constants(p, settings).log10_width + log_nd  # Theorem 6.5 asks for n^3 d^3
    argument = log_nd - (log_lam - math.log10(2) - log_nd) - least - log_lam
    widths = [least + decades for decades in settings.decades]
    squares = [((log_nd - width - log_lam) * math.log(10)) ** 2 for width in widths]
    return Finding(
        hypotheses=(kernel_is_definite(p),),
        conclusions=(
            Conclusion.of_trend(
                "log^2(nd/(m lambda)) over log10 m / m_0, m_0 the theorem's least",
                "<=",
                at_most(0.0),
                settings.decades,
                squares,
                part="dropped in G.2",
            ),
            Conclusion(
                "nd/(eps_H m lambda) at the theorem's least m, where tau_0 > 0 asks for 1",
                ">=",
                0.0,
                argument,
                log10=True,
                part="tau_0 in F.2",
            ),
        ),
        numbers={"log10 of the least m": least, "log^2 at the least m": squares[0]},
        remark="From m > nd/(eps_H lambda) on the logarithm is negative and its square grows with m. "
        "Without it the theorem is right: see P2/theorem-g.2-repaired.",
    )
