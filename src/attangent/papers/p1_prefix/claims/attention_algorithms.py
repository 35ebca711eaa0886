"""Algorithms 1 to 4: what prefix attention and NTK-Attention compute, and how much."""

import math
from collections.abc import Sequence

from attangent.attention import PrefixState, ntk_attention, prefix_attention
from attangent.attention.features import Elu
from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Series
from attangent.audit.registry import claim
from attangent.papers.p1_prefix.claims.attention_counting import (
    algorithm_3,
    algorithm_4,
    count_3,
    count_4,
    drawn,
    last_exponent,
    printed_count_3,
    printed_count_4,
)

_EXACT = 1e-12


@claim(
    "P1/algorithm-1",
    place="Sections 2 and 4.2, Appendix A, Algorithms 1 and 3",
    title="Prefix attention and its cost",
    quote="""Q, K_P, V_P <- X W_Q, S W_K, S W_V; A <- exp(Q K_P'/sqrt d); D <- diag(A 1_(m+L)); return D^-1
        A V_P""",
    statement="""Attention over a prefix of m trainable rows and L tokens is softmax(Q K_P'/sqrt d) V_P;
        it holds md parameters and takes O((m + L) d^2 + L (m + L) d) operations, linear in the prefix
        length.""",
    quick={"L": 24, "m": 80, "d": 8, "lengths": [2**i for i in range(0, 17, 2)], "printed_m": 1.0},
    seeds=1,
    seconds=0.3,
)
def prefix_attention_cost(settings: Settings, seed: int) -> Finding:
    L, m, d = settings.L, settings.m, settings.d
    X, P = drawn(L, d, seed=seed, stream="X"), drawn(m, d, seed=seed, stream="P")
    W = [drawn(d, d, seed=seed, stream=f"W{name}") / math.sqrt(d) for name in "QKV"]
    q, k, v = ((X @ w)[None, None] for w in W)
    ours = prefix_attention(q, k, v, (P @ W[1])[None], (P @ W[2])[None])
    counts = [count_3(L, length, d) for length in settings.lengths]
    printed = [printed_count_3(L, length, d) for length in settings.lengths]
    return Finding(
        conclusions=(
            Conclusion(
                "largest |prefix_attention - Algorithm 3|",
                "<=",
                _EXACT,
                (ours[0, 0] - algorithm_3(X, P, *W)).abs().max().item(),
            ),
            Conclusion("parameters of the prefix over md", "==", 1.0, P.numel() / (m * d)),
            Conclusion(
                "multiplications counted over printed, largest",
                "<=",
                1.0,
                max(c / p for c, p in zip(counts, printed, strict=True)),
            ),
            Conclusion(
                "exponent of the count in m, longest prefixes",
                "<=",
                settings.printed_m + 1e-3,
                last_exponent(settings.lengths, counts),
            ),
            Conclusion(
                "count over m (m + L) d, which Section 4.3 says instead, at the longest prefix",
                ">=",
                1.0,
                counts[-1] / (settings.lengths[-1] * (settings.lengths[-1] + L) * d),
                claimed=False,
            ),
        ),
        numbers={"multiplications at the longest prefix": counts[-1]},
        figures=(_cost_figure("Algorithm 3", settings.lengths, counts, printed),),
        remark="The count is linear in m. The cost m (m + L) d named in Section 4.3 would need queries for "
        "the prefix too, which Algorithm 1 does not have.",
    )


def _cost_figure(
    name: str, lengths: Sequence[int], counts: Sequence[float], printed: Sequence[float]
) -> Figure:
    return Figure(
        title=f"{name}: multiplications against prefix length",
        x_label="prefix length m",
        y_label="multiplications",
        series=(
            Series.of("counted", lengths, counts),
            Series.of("printed", lengths, printed, kind="bound"),
        ),
        log_x=True,
        log_y=True,
    )


@claim(
    "P1/algorithm-2",
    place="Section 4.2, Appendix A, Algorithms 2 and 4",
    title="NTK-Attention and its cost",
    quote="D^ <- diag(A^ 1_L + Phi(Q) k); T <- D^^-1 (A^ V + Phi(Q) Z)",
    statement="""NTK-Attention (exp(A) V + phi(Q) Z) / (exp(A) 1 + phi(Q) k) holds rd + r parameters and
        takes O(L d^2 + L^2 d + L r + L r^2) operations with r = d features, whatever the length of the
        prefix.""",
    quick={"L": 24, "d": 8, "lengths": [2**i for i in range(0, 13, 2)]},
    full={"lengths": [2**i for i in range(0, 17, 2)]},
    seeds=1,
    seconds=0.3,
)
def ntk_attention_cost(settings: Settings, seed: int) -> Finding:
    L, d = settings.L, settings.d
    phi, X = Elu(d), drawn(L, d, seed=seed, stream="X")
    W = [drawn(d, d, seed=seed, stream=f"W{name}") / math.sqrt(d) for name in "QKV"]
    gaps, counts, sizes = [], [], []
    for m in settings.lengths:
        P = drawn(m, d, seed=seed, stream=f"P{m}")
        state = PrefixState.from_prefix(phi, P @ W[1], P @ W[2])
        Z, k = state.Z.detach()[0], state.k.detach()[0]
        q, key, v = ((X @ w)[None, None] for w in W)
        ours = ntk_attention(q, key, v, state).detach()
        gaps.append((ours[0, 0] - algorithm_4(X, Z, k, *W, phi=phi)).abs().max().item())
        counts.append(count_4(L, d, phi, Z.shape, k.shape))
        sizes.append(state.number_of_floats)
    printed = printed_count_4(L, d, phi.size)
    return Finding(
        conclusions=(
            Conclusion("largest |ntk_attention - Algorithm 4|", "<=", _EXACT, max(gaps)),
            Conclusion("parameters of the state, longest prefix", "==", d * d + d, sizes[-1]),
            Conclusion("multiplications counted over printed", "<=", 1.0, max(counts) / printed),
            Conclusion(
                "cost at the longest over cost at the shortest prefix", "==", 1.0, counts[-1] / counts[0]
            ),
        ),
        numbers={"multiplications": counts[-1], "parameters": sizes[-1]},
        figures=(_cost_figure("Algorithm 4", settings.lengths, counts, [printed] * len(counts)),),
        remark="Line 5 notes L r^2 for Phi(Q) Z, which takes L r d: the same for r = d, more where r < d.",
    )
