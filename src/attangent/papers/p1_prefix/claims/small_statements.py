"""Facts, definitions and sums of tables that are quickly checked."""

import gzip
import json
import math

import torch

from attangent.audit import Conclusion, Failure, Finding, Settings, claim
from attangent.data.places import data_file
from attangent.papers.p1_prefix.claims.adapters_tables import CB, OTHERS, P_TUNING, beyond_rounding
from attangent.papers.p1_prefix.claims.attention_setting import algorithm_3, count_3, drawn, last_exponent
from attangent.papers.p1_prefix.claims.tails import signs_tail, worst
from attangent.papers.p1_prefix.proofs import attention

TABLE_2 = {
    "FFT": (85.15, 84.76, 76.20, 82.04),
    "LoRA r = 16": (92.17, 89.38, 88.22, 89.92),
    "LoRA r = 32": (92.01, 89.86, 90.16, 90.68),
    "NTK-Attention": (92.55, 90.57, 89.46, 90.86),
}
"""CIFAR-100, Food-101, Tiny-Imagenet and the printed average."""
LEADS = (7.40, 5.81, 13.26)
"""Section 5: by how much NTK-Attention is more accurate than FFT."""


@claim(
    "P1/table-2-averages",
    place="Section 5, Table 2; Section 1",
    title="The averages of Table 2 and the leads in the text",
    quote="""7.40%, 5.81% and 13.26% higher accuracy on the three datasets ... an average accuracy that is
        1.07% higher than LoRA and 12.94% higher than P-Tuning V2""",
    nature="remark",
    plain="""The averages of Table 2 are right. The leads are differences of the printed averages; that
        over LoRA inherits an error of 0.02 in LoRA's average (P1/table-1-averages).""",
    unconditional=True,
    quick={"leads": list(LEADS), "printed": {}},
    seeds=1,
)
def averages(settings: Settings, seed: int) -> Finding:
    """The last column of Table 2 is the average of the three before it up to rounding, and the leads that
    Sections 1 and 5 quote are differences of the tables.
    """
    rows = {**TABLE_2, **settings.printed}
    leads = [ours - other for ours, other in zip(rows["NTK-Attention"][:3], rows["FFT"][:3], strict=True)]
    quoted = {
        "over LoRA, Section 1": OTHERS["NTK-Attention"][-1] - OTHERS["LoRA"][-1] - 1.07,
        "over P-Tuning V2, Section 1": OTHERS["NTK-Attention"][-1] - P_TUNING[100][-1] - 12.94,
    }
    largest_error = max(abs(a - b) for a, b in zip(leads, settings.leads, strict=True))
    return Finding(
        conclusions=(
            *(
                Conclusion(f"{name}: error of the average beyond rounding", "<=", 1e-9, beyond_rounding(row))
                for name, row in rows.items()
            ),
            Conclusion("largest error of a quoted lead over FFT", "<=", 1e-9, largest_error),
            *(
                Conclusion(f"error of the lead {name}", "<=", 1e-9, abs(error))
                for name, error in quoted.items()
            ),
        )
    )


@claim(
    "P1/section-5-datasets",
    place="Section 5, Evaluation on Natural Language Understanding Datasets",
    title="Five binary classification datasets",
    quote="""we utilize five binary classification datasets in SuperGLUE: the BoolQ, CB, Copa, MultiRC,
        and RTE datasets""",
    nature="remark",
    plain="""CB has three labels (entailment, contradiction, neutral), so one of the five tasks is not
        binary. Nothing depends on it.""",
    failure=Failure(
        "P1/section-5-datasets",
        "used nowhere",
        "the labels of CB",
        root="a task with three labels is called binary",
    ),
    quick={"files": list(CB)},
    seeds=1,
    data=CB,
)
def labels(settings: Settings, seed: int) -> Finding:
    """CB, one of the five datasets, is a task with two labels."""
    paths = [data_file(name) for name in settings.files]
    if None in paths:
        return Finding(
            conclusions=(Conclusion("labels of CB", "<=", 2, math.nan),),
            remark="Set ATTANGENT_DATA to a folder with superglue/CB.",
        )
    labels = set()
    for path in paths:
        with gzip.open(str(path), "rt") as lines:
            labels |= {json.loads(line)["label"] for line in lines}
    return Finding(conclusions=(Conclusion("labels of CB", "<=", 2, len(labels)),))


@claim(
    "P1/section-4.3-cost",
    place="Section 4.3, first sentence",
    title="Algorithm 1 takes time of order m (m + L) d",
    quote="while it also bring a O(m(m+L)d) time complexity to compute Algorithm 1",
    rests_on=("P1/algorithm-1",),
    nature="remark",
    plain="""Algorithm 1 takes L (m + L) d, as Section 4 and Appendix A say: linear in m. Section 5 and
        Appendix B.2 repeat that it is quadratic; no theorem falls.""",
    failure=Failure(
        "P1/section-4.3-cost",
        "Section 5 and Appendix B.2 call the run time quadratic in m; no theorem uses it",
        "in the limit of long prefixes",
        root="the cost of prefix attention is linear in m, not quadratic",
    ),
    proof=attention.linear_cost,
    ours=(
        "O read as the order of the cost, as Figure 3 reads it; as an upper bound it is true for m >= L and "
        "m >= d",
    ),
    quick={"L": 24, "d": 8, "lengths": [2**i for i in range(6, 17, 2)], "exponent": 2.0},
    seeds=1,
)
def quadratic_cost(settings: Settings, seed: int) -> Finding:
    """The number of multiplications of Algorithm 1 grows like m^2 for long prefixes."""
    counts = [count_3(settings.L, m, settings.d) for m in settings.lengths]
    exponent = last_exponent(settings.lengths, counts)
    return Finding(
        conclusions=(
            Conclusion("exponent of the multiplications in m", ">=", settings.exponent - 1e-2, exponent),
        )
    )


@claim(
    "P1/definition-j.1",
    place="Appendix J.1, Definition J.1",
    title="Prefix attention as defined in Appendix J",
    quote="Let K_P := S W_Q in R^((m+L) x d) ... Let A := exp(Q K_P') in R^(L x (m+L))",
    plain="""Definition J.1 prints W_Q for W_K and omits sqrt d; it is not the prefix attention of
        Algorithm 1. The meaning is obvious, but the missing sqrt d hides the gap of Theorem 4.1.""",
    failure=Failure(
        "P1/definition-j.1",
        "the proof of Theorem J.2 starts from it, with W_K restored but without sqrt d",
        "d = 1 with W_Q and W_K different",
        root="W_Q is printed for W_K, and sqrt d is missing",
    ),
    proof=attention.printed_projection,
    quick={"L": 4, "m": 6, "d": 4, "same": False},
)
def definition(settings: Settings, seed: int) -> Finding:
    """D^-1 A V_P with K_P = S W_Q and A = exp(Q K_P') is prefix attention, Algorithm 1."""
    d = settings.d
    X = drawn(settings.L, d, seed=seed, stream="X")
    P = drawn(settings.m, d, seed=seed, stream="P")
    W_Q, W_K, W_V = (drawn(d, d, seed=seed, stream=f"W{name}") / math.sqrt(d) for name in "QKV")
    exact = algorithm_3(X, P, W_Q, W_Q * math.sqrt(d) if settings.same else W_K, W_V)
    S = torch.cat([P, X])
    A = torch.exp(X @ W_Q @ (S @ W_Q).T)
    printed = (A @ (S @ W_V)) / A.sum(dim=1, keepdim=True)
    gap = ((printed - exact).norm() / exact.norm()).item()
    return Finding(conclusions=(Conclusion("relative distance from Algorithm 1", "<=", 1e-10, gap),))


@claim(
    "P1/fact-d.1",
    place="Appendix D.1, Fact D.1",
    title="The second-order expansion of exp",
    quote="For any x in (-0.01, 0.01), we have exp(x) = 1 + x + Theta(1) x^2.",
    nature="quotation",
    plain="The expansion is right, with a factor between 0.498 and 0.502.",
    quick={"points": 200, "reach": 0.01},
)
def expansion(settings: Settings, seed: int) -> Finding:
    """(e^x - 1 - x)/x^2 lies between two positive constants, here 0.49 and 0.51, for |x| < 0.01."""
    grid = [settings.reach * (i + 0.5) / settings.points for i in range(-settings.points, settings.points)]
    factors = [(math.expm1(x) - x) / x**2 for x in grid if abs(x) > 1e-4]
    return Finding(
        conclusions=(
            Conclusion("largest factor", "<=", 0.51, max(factors)),
            Conclusion("smallest factor", ">=", 0.49, min(factors)),
        )
    )


@claim(
    "P1/fact-d.2",
    place="Appendix D.1, Fact D.2",
    title="The geometric sum",
    quote="For any x in (0, 0.1), we have sum_(i=1)^n x^i <= 1/(1-x).",
    nature="quotation",
    plain="""The bound is right. Eq. (18) uses it for ratios near 1, outside the stated range, where it is
        right as well.""",
    quick={"ratios": [0.001, 0.01, 0.05, 0.09], "n": 50, "power": 1.0},
)
def geometric(settings: Settings, seed: int) -> Finding:
    """sum_(i=1)^n x^i <= 1/(1 - x) for 0 < x < 0.1."""
    ratios = [
        sum(x**i for i in range(1, settings.n + 1)) * (1 - x) ** settings.power for x in settings.ratios
    ]
    return Finding(conclusions=(Conclusion("largest sum / bound", "<=", 1.0, max(ratios)),))


@claim(
    "P1/lemma-d.4",
    place="Appendix D.2, Lemma D.4",
    title="Hoeffding's inequality",
    quote="Pr[|X - E[X]| >= t] <= 2 exp(-2t^2 / sum_i (b_i - a_i)^2)",
    nature="quotation",
    plain="Hoeffding's inequality, the only tail bound of Appendix D that the paper uses, is quoted right.",
    quick={"counts": [1, 4, 100], "places": [0.5, 1.0, 2.0, 3.0], "factor": 2.0},
    seeds=1,
)
def hoeffding(settings: Settings, seed: int) -> Finding:
    """A sum of n independent signs, which lie in [-1, 1], exceeds t sqrt(n) with probability at most 2
    exp(-t^2/2).
    """
    largest = max(worst(signs_tail(n, 0.5, settings.factor), settings.places) for n in settings.counts)
    return Finding(conclusions=(Conclusion("largest probability / bound", "<=", 0.0, largest, log10=True),))
