"""Lemmas H.8, H.9 and H.10: the loss during training, and sums of a step over the prefix."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attangent.audit import Conclusion, Failure, Figure, Finding, Hypothesis, Series, Settings, claim
from attangent.kernels import unit_data
from attangent.papers.common.bounds import LOG10_E
from attangent.papers.common.figures import plot
from attangent.papers.common.sizes import by_size
from attangent.papers.p1_prefix.claims.prefix_regression import PrefixRegression
from attangent.papers.p1_prefix.network import PrefixNetwork
from attangent.papers.p1_prefix.proofs import signs

_SIZES = {
    "n": 6,
    "d": 4,
    "sigma": 0.03,
    "init": "independent",
    "delta": 0.05,
    "lengths": [1024, 4096, 16384, 65536],
    "draws": 6,
}
"""sigma is such that B = 1; results are means over several draws of the prefix."""


@dataclass(frozen=True)
class Sums:
    """Sums of a step with rate eta, over eta |F - Y|_F; root mean squares over draws of the prefix.

    Attributes:
        steps: max_i |sum_r <Delta w_r, x_i>|.
        squares: max_i sum_r <Delta w_r, x_i>^2, over eta^2 |F - Y|_F.
        normaliser: max_i |change of alpha_i| to first order.
        residual: |F - Y|_F.
    """

    steps: float
    squares: float
    normaliser: float
    residual: float


def sums(X: Tensor, Y: Tensor, network: PrefixNetwork) -> Tensor:
    """Return the four numbers of `Sums` for one prefix."""
    moves = X @ network.gradient(X, Y)  # <Delta w_r, x_i> as (i, r)
    residual = (network.forward(X) - Y).norm()
    u = torch.exp(X @ network.W)
    terms = (moves.sum(dim=1).abs(), moves.square().sum(dim=1), (u * moves).sum(dim=1).abs())
    return torch.stack([*(term.max() / residual for term in terms), residual])


def at_length(settings: Settings, m: int, seed: int) -> Sums:
    X, Y = unit_data(settings.n, settings.d, settings.d, seed)
    rows = []
    for draw in range(settings.draws):
        network = PrefixNetwork(settings.d, m, settings.sigma, settings.init, 1000 * seed + draw)
        rows.append(sums(X, Y, network))
    return Sums(*torch.stack(rows).square().mean(dim=0).sqrt().tolist())


def _over_lengths(settings: Settings, seed: int) -> tuple[PrefixRegression, dict[int, Sums]]:
    """Return the problem at the shortest length, for its constants, and the sums at every length."""
    p = PrefixRegression.draw(settings | {"m": settings.lengths[0]}, seed)
    return p, {m: at_length(settings, m, seed) for m in settings.lengths}


def _conditions(p: PrefixRegression, settings: Settings) -> tuple[Hypothesis, ...]:
    """|x|, |y| <= 1, and the length that H.9 and H.10 require, which a long enough prefix reaches."""
    needed = p.guarantee(settings).log10_width
    return (
        *p.in_unit_ball,
        Hypothesis("length m", ">=", needed, math.log10(settings.lengths[-1]), log10=True, in_limit=True),
    )


@claim(
    "P1/lemma-h.8",
    place="Appendix H.5, Lemma H.8",
    title="The loss during training is O(sqrt(nmd))",
    quote="Then we have |F(tau) - Y|_F <= O(sqrt(nmd)).",
    plain="""With high probability the loss is O(sqrt(nmd)) at the start and during stable training.
        Printed without any condition on the learning rate.""",
    ours=("a stable learning rate; the lemma has no condition on eta",),
    quick={
        **_SIZES,
        "sigma": 1.0,
        "rate": 0.5,
        "steps": 20,
        "lengths": [256, 1024, 4096, 16384],
        "draws": 24,
    },
    full={"lengths": [1024, 4096, 16384, 65536], "steps": 200},
)
def loss_in_training(settings: Settings, seed: int) -> Finding:
    """|F(tau) - Y|_F = O(sqrt(nmd)): it grows with m at most like sqrt(m), at initialisation and during
    training.
    """
    p, by_length = _over_lengths(settings, seed)
    starts = [sums.residual for sums in by_length.values()]
    run = p.train(settings)
    root = math.sqrt(settings.n * settings.d)
    grown = math.sqrt((run.loss.max() / run.loss[0]).item())
    return Finding(
        hypotheses=p.in_unit_ball,
        conclusions=(
            Conclusion.of_trend("|F(0) - Y|_F over m", "<=", 0.5, settings.lengths, starts),
            Conclusion(
                "largest |F(tau) - Y|_F during training / |F(0) - Y|_F",
                "<=",
                1 + 1e-9,
                grown,
                threshold="ours",
            ),
        ),
        numbers={
            f"|F(0) - Y|_F / sqrt(nmd), m = {m}": value / (root * math.sqrt(m))
            for m, value in zip(settings.lengths, starts, strict=True)
        },
        figures=(_lengths_figure("|F(0) - Y|_F", settings.lengths, starts, 0.5),),
        remark="Lemma I.6, which claims O(sqrt(nd)) at initialisation, contradicts this lemma.",
    )


@claim(
    "P1/lemma-h.9",
    place="Appendix H.6, Lemma H.9",
    title="A step changes the normaliser alpha by O(1/m)",
    quote="""alpha_i(tau+1) - alpha_i(tau) <= eta sqrt(nd) exp(9B)/m |F(tau) - Y|_F + eta^2 m^1.5 nd exp(21B)
        |F(tau) - Y|_F""",
    rests_on=("P1/lemma-h.10", "P1/lemma-k.1"),
    plain="""Printed: a step changes alpha by order 1/m. It is of order sqrt(m), as a sum with random
        signs; with the second printed term the bound survives at sigma = 1, not at small sigma or small
        eta.""",
    failure=Failure(
        "P1/lemma-h.10",
        "a proof step of Lemma H.3, which falls anyway; the steps are of order sqrt(m)",
        "B = 1 and the learning rate of Lemma I.4, in the limit of long prefixes",
    ),
    proof=signs.normaliser,
    quick=_SIZES,
    full={"lengths": [1024, 4096, 16384, 65536, 262144], "draws": 20},
)
def normaliser(settings: Settings, seed: int) -> Finding:
    """A step changes alpha_i by at most eta sqrt(nd) e^(9B) |F - Y|_F / m + eta^2 m^1.5 nd e^(21B) |F -
    Y|_F (part 1), and 1/alpha_i by at most eta sqrt(nd) e^(15B) |F - Y|_F / m^3 + eta^2 nd e^(27B) |F -
    Y|_F / sqrt(m) (part 2). We take eta of Lemma I.4, lambda/(m (nd)^2 e^(16B)).
    """
    p, by_length = _over_lengths(settings, seed)
    values = [sums.normaliser for sums in by_length.values()]
    what = "change of alpha / (eta |F - Y|_F)"
    growth = values[-1] / math.sqrt(settings.lengths[-1])
    B = p.bound(settings)
    rate = p.paper.lambda_min / p.size**2 * math.exp(-16 * B)  # m eta of Lemma I.4
    # for long prefixes the first terms of both bounds, 1/m and 1/m^3, are smaller than the second
    first = rate * p.size * math.exp(21 * B)
    second = rate * p.size * math.exp(27 * B) * math.exp(settings.sigma**2)
    return Finding(
        hypotheses=(
            *p.in_unit_ball,
            Hypothesis("length m", ">=", p.guarantee(settings).log10_width, math.inf, log10=True),
        ),
        conclusions=(
            _in_limit("change of alpha", settings, growth / first, "1"),
            _in_limit("change of 1/alpha", settings, growth / second, "2"),
            Conclusion.of_trend(
                f"{what}, over m; its first term has -1", "<=", -1.0, settings.lengths, values, claimed=False
            ),
        ),
        numbers=by_size("m = {}", settings.lengths, values),
        figures=(_lengths_figure(what, settings.lengths, values, -1.0),),
        remark="The change grows like sqrt(m), like any sum of m terms with random signs. So does the "
        "second term of the bound, which saves it at sigma = 1, where e^(5B) is huge. The lemma "
        "has no condition on eta, and as eta goes to 0 the second term vanishes beside the first, "
        "which falls like 1/m. The proof of part 2 also loses a sign (P1/lemma-h.9-sign).",
    )


def _in_limit(what: str, settings: Settings, ratio: float, part: str) -> Conclusion:
    name = f"{what} / its bound as m goes to infinity, sigma = {settings.sigma:g}"
    return Conclusion(name, "<=", 0.0, math.log10(ratio), log10=True, part=part)


@claim(
    "P1/lemma-h.10",
    place="Appendix H.6, Lemma H.10",
    title="Sums of a step over the prefix",
    quote="""Part 1. |<eta Delta W(tau)'x_i, 1_m>| <= eta sqrt(nd) exp(8B)/m |F(tau) - Y|_F. Part 2. |<eta^2
        (Delta W(tau)'x_i)^2, 1_m>| <= eta^2 m^1.5 nd exp(20B) |F(tau) - Y|_F""",
    rests_on=("P1/claim-f.12", "P1/lemma-h.8", "P1/lemma-k.1", "P1/lemma-k.2"),
    plain="""Printed: the steps of the prefix sum to order 1/m. The sum is m sum_j <a, S_j> <R_j, x_i>, of
        order sqrt(m). Part 2 holds.""",
    failure=Failure(
        "P1/lemma-h.10",
        "Lemma H.9 falls with it",
        "from m = 208 on at n = d = 1, B = 1, so at every m that the lemma allows",
        root="the proof drops the factor m of the gradient and the sqrt(m) of Hoeffding's inequality",
    ),
    proof=signs.step_sum,
    quick={**_SIZES, "lengths": [256, 1024, 4096, 16384], "draws": 40},
    full={"lengths": [1024, 4096, 16384, 65536, 262144], "draws": 100},
    seconds=0.6,
)
def step_sums(settings: Settings, seed: int) -> Finding:
    """The sum of <eta Delta w_r, x_i> over the prefix is at most eta sqrt(nd) e^(8B) |F - Y|_F / m, and the
    sum of the squares is at most eta^2 m^1.5 nd e^(20B) |F - Y|_F.
    """
    p, by_length = _over_lengths(settings, seed)
    longest = settings.lengths[-1]
    B = p.bound(settings) * LOG10_E
    bound = 0.5 * math.log10(p.size) + 8 * B - math.log10(longest)
    first = [sums.steps for sums in by_length.values()]
    squares = [sums.squares for sums in by_length.values()]
    what = "|<Delta W'x_i, 1>| / |F - Y|_F"
    square = "<(Delta W'x_i)^2, 1> /"
    largest_square = math.log10(squares[-1] / (longest**1.5 * p.size))
    return Finding(
        hypotheses=_conditions(p, settings),
        conclusions=(
            Conclusion.of_trend(f"{what}, over m", "<=", -1.0, settings.lengths, first, part="1"),
            Conclusion(f"{what}, longest prefix", "<=", bound, math.log10(first[-1]), log10=True, part="1"),
            Conclusion.of_trend(
                f"{square} |F - Y|_F, over m", "<=", 1.5, settings.lengths, squares, part="2"
            ),
            Conclusion(
                f"{square} (m^1.5 nd |F - Y|_F), longest prefix",
                "<=",
                20 * B,
                largest_square,
                log10=True,
                part="2",
            ),
        ),
        numbers=by_size("part 1, m = {}", settings.lengths, first),
        figures=(_lengths_figure(what, settings.lengths, first, -1.0),),
        remark="The sum of part 1 grows like sqrt(m). Its term through the softmax is zero, and the term of "
        "the values is m sum_j <a, S_j> <R_j, x_i> with <a, S_j> of order m^(-1/2). The proof also uses "
        "|U|_1 <= |U|_F, which is reversed.",
    )


def _lengths_figure(what: str, lengths: list[int], values: list[float], exponent: float) -> Figure:
    printed = [values[0] * (m / lengths[0]) ** exponent for m in lengths]
    return plot(
        "Growth with the prefix length",
        ("prefix length m", what),
        Series.of("measured", lengths, values),
        Series.of(f"printed, m^{exponent:g}", lengths, printed, "bound"),
    )
