"""Corollary J.3: the tokens by a fast attention, too."""

import math

import torch
from torch.utils.flop_counter import FlopCounterMode

from attangent.attention import PrefixState, prefix_attention
from attangent.attention.fast import (
    FastAttention,
    HyperAttention,
    PolynomialAttention,
    fast_ntk_attention,
)
from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Hypothesis, Series
from attangent.audit.papers.p1.attention_counting import last_exponent
from attangent.audit.papers.p1.attention_prefix import growing_map
from attangent.audit.papers.p1.bounded_prefix import BoundedPrefix
from attangent.audit.registry import claim


def error(fast: FastAttention, m: int, L: int, settings: Settings, seed: int) -> float:
    """The largest error of NTK-Attention with fast tokens against exact prefix attention."""
    prefix = BoundedPrefix.draw(m, L, settings.d, settings.bound, seed)
    state = PrefixState.from_prefix(
        growing_map(settings.d, settings.bound, m, settings.order), prefix.K_C, prefix.V_C, chunk=1024
    )
    q, k, v = prefix.Q[None], prefix.K[None], prefix.V[None]
    exact = prefix_attention(q, k, v, prefix.K_C, prefix.V_C)
    with torch.no_grad():
        return (fast_ntk_attention(fast, q, k, v, state) - exact).abs().max().item()


def multiplications(fast: FastAttention, L: int, d: int) -> int:
    """Multiplications of the matrix products in attention over L tokens."""
    q, k, v = (torch.zeros(1, 1, L, d) for _ in range(3))
    with FlopCounterMode(display=False) as counter:
        fast(q, k, v)
    return counter.get_total_flops() // 2


def even_order(settings: Settings, m: int) -> int:
    """The order of the growing map, made even: token masses must not be negative."""
    order = growing_map(settings.d, settings.bound, m, settings.order).order
    return order + order % 2


@claim(
    "P1/corollary-j.3",
    place="Section 4.3, Appendix J.2, Corollary J.3",
    title="NTK-Attention in nearly linear time",
    statement="""With a fast attention for the tokens, such as HyperAttention, NTK-Attention differs
        from prefix attention by at most 1/poly(m) within O(L^(1+o(1)) d) operations, under the conditions
        of Theorem 4.1.""",
    quick={
        "d": 3,
        "bound": 1.0,
        "L": 256,
        "lengths": [2**i for i in range(6, 13, 2)],
        "block": 32,
        "samples": 32,
        "token_lengths": [256, 512, 1024, 2048],
        "order": None,
        "exponent": 1.1,
    },
    full={
        "d": 4,
        "L": 512,
        "lengths": [2**i for i in range(6, 15, 2)],
        "token_lengths": [512, 1024, 2048, 4096, 8192],
    },
    seconds=1.0,
)
def corollary_j_3(settings: Settings, seed: int) -> Finding:
    lengths, L = settings.lengths, settings.L
    hyper = HyperAttention(block=settings.block, samples=settings.samples, seed=seed)
    sampled = [error(hyper, m, L, settings, seed) for m in lengths]
    polynomial = [error(PolynomialAttention(even_order(settings, m)), m, L, settings, seed) for m in lengths]
    together = [error(hyper, m, m, settings, seed) for m in lengths]
    return Finding(
        hypotheses=(
            Hypothesis("bound of the entries", "<=", math.sqrt(math.log(lengths[0])), settings.bound),
            Hypothesis("d", "<=", math.log(lengths[0]), settings.d),
        ),
        conclusions=(
            Conclusion(
                "largest error x m, tokens by the polynomial method",
                "<=",
                1.0,
                max(e * m for e, m in zip(polynomial, lengths, strict=True)),
            ),
            *_operations(settings, hyper),
            _decay(f"L = {L}", lengths, sampled),
            _decay("L = m", lengths, together),
        ),
        numbers={
            f"error, HyperAttention, m = {lengths[-1]}": sampled[-1],
            f"error, HyperAttention, L = m = {lengths[-1]}": together[-1],
            f"error, polynomial, m = {lengths[-1]}": polynomial[-1],
        },
        figures=(
            _error_figure(
                lengths,
                {
                    f"HyperAttention, L = {L}": sampled,
                    "HyperAttention, L = m": together,
                    "polynomial method": polynomial,
                },
            ),
        ),
        remark="The polynomial method keeps 1/m. HyperAttention, which the proof names, has the error of a "
        "sample: it falls with m only as the prefix outweighs a fixed number of tokens, and not at "
        "all where L grows with m.",
    )


def _operations(settings: Settings, hyper: HyperAttention) -> list[Conclusion]:
    """How the multiplications of each method grow with the number of tokens."""
    methods = {
        "HyperAttention": hyper,
        "polynomial": PolynomialAttention(even_order(settings, settings.lengths[-1])),
    }
    return [
        Conclusion(
            f"exponent of the operations in L, {name}",
            "<=",
            settings.exponent,
            last_exponent(
                settings.token_lengths,
                [multiplications(method, n, settings.d) for n in settings.token_lengths],
            ),
        )
        for name, method in methods.items()
    ]


def _decay(tokens: str, lengths: list[int], errors: list[float]) -> Conclusion:
    return Conclusion(
        f"c in error ~ m^-c, HyperAttention, {tokens}",
        ">=",
        1.0,
        math.log(errors[0] / errors[-1]) / math.log(lengths[-1] / lengths[0]),
        claimed=False,
    )


def _error_figure(lengths: list[int], curves: dict[str, list[float]]) -> Figure:
    return Figure(
        title="Error with a fast attention for the tokens",
        x_label="prefix length m",
        y_label="largest error of the output",
        series=(
            *(Series.of(name, lengths, errors) for name, errors in curves.items()),
            Series.of("1/m", lengths, [1 / m for m in lengths], kind="bound"),
        ),
        log_x=True,
        log_y=True,
    )
