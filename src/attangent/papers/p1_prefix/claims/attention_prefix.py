"""Equation (7) and Theorem 4.1: Z and k in place of a prefix, and the error of NTK-Attention."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from attangent.attention.features import Elu, FeatureMap, PositiveRandom, Printed, Taylor, order_for
from attangent.audit import Conclusion, Failure, Figure, Finding, Hypothesis, Series, Settings, claim
from attangent.papers.common.bounds import comparison
from attangent.papers.common.figures import plot
from attangent.papers.common.sizes import by_size, no_growth, ratios
from attangent.papers.p1_prefix.claims.attention_setting import BoundedPrefix, error_from
from attangent.papers.p1_prefix.proofs import attention


@claim(
    "P1/equation-7",
    place="Section 4.1, Equations (6) and (7)",
    title="Z and k replace a prefix",
    quote="Z = sum_j phi(K_C,j) V_C,j' in R^(r x d), k = sum_j phi(K_C,j) in R^r. (7)",
    nature="definition",
    plain="""Z and k built from a prefix by Eq. (7) replace it, with an error that vanishes as the
        features approximate exp.""",
    quick={"m": 256, "L": 24, "d": 3, "bound": 0.8, "orders": [1, 2, 4, 6, 8, 10, 12], "tolerance": 1e-9},
    full={"m": 4096, "L": 64, "d": 4, "orders": [1, 2, 4, 6, 8, 10, 12, 14]},
)
def equation_7(settings: Settings, seed: int) -> Finding:
    """If phi(q).phi(k) approximates exp(q.k/sqrt d), then NTK-Attention with Z = sum_j phi(K_j) V_j' and k =
    sum_j phi(K_j), built from the prefix's keys and values, approximates prefix attention. The error vanishes
    as the approximation of exp becomes exact.
    """
    d = settings.d
    bound = settings.bound
    prefix = BoundedPrefix.draw(settings.m, settings.L, d, bound, seed)
    errors = [prefix.error(Taylor(d, order)).sup for order in settings.orders]
    bounds = [error_from(Taylor(d, order).relative_error(bound), bound) for order in settings.orders]
    authors = {"elu map": prefix.error(Elu(d)).sup, "printed map": prefix.error(Printed(d)).sup}
    first_order = prefix.error(Taylor(d, 1)).sup
    largest_ratio = max(ratios(errors, bounds))
    return Finding(
        conclusions=(
            Conclusion(
                "error with the highest order", "<=", settings.tolerance, errors[-1], threshold="ours"
            ),
            Conclusion("largest error / bound from the error of the map", "<=", 1.0, largest_ratio),
            *(
                comparison(f"error of the {name}, which the paper trains", "<=", first_order, error)
                for name, error in authors.items()
            ),
        ),
        numbers=by_size("error, order {}", settings.orders, errors),
        figures=(
            plot(
                "Error of Equation (7) over the order of the map",
                ("order of the Taylor map", "largest error of the output"),
                Series.of("measured", settings.orders, errors),
                Series.of("bound from the error of the map", settings.orders, bounds, kind="bound"),
                *(Series.of(name, settings.orders, [error] * len(errors)) for name, error in authors.items()),
                log="y",
            ),
        ),
        remark="With Taylor features Equation (7) is exact in the limit. The maps in the authors' code and "
        "in Section 4.2 do not approximate exp. A first-order map, with one feature more, is much closer.",
    )


def fixed_maps(d: int) -> dict[str, FeatureMap]:
    """Return feature maps whose size does not grow with the prefix."""
    return {
        "elu (authors' code)": Elu(d),
        "printed formula": Printed(d),
        "Taylor, order 1": Taylor(d, 1),
        "Taylor, order 2": Taylor(d, 2),
        "positive random, r = 64": PositiveRandom(d, 64, seed=0),
    }


def growing_map(d: int, bound: float, m: int, order: int | None) -> Taylor:
    """Return Taylor features of the order that guarantees an error below 1/m, or of the order passed."""
    if order is not None:
        return Taylor(d, order)
    allowed = 1 / (1 + 2 * bound * m)  # error_from(allowed, bound) = 1/m
    return Taylor(d, order_for(bound**2 * math.sqrt(d), allowed))


@dataclass(frozen=True)
class Errors:
    """Errors of the output over the prefix length, for features that grow with it and for fixed maps."""

    grown: list[float]
    fixed: dict[str, list[float]]


@claim(
    "P1/theorem-4.1",
    place="Section 4.3, Theorem 4.1 (Theorem J.2)",
    title="NTK-Attention approximates prefix attention up to 1/poly(m)",
    quote="""If the condition Eq. (7), |Q|_inf <= o(sqrt(log m)), |K_C|_inf <= o(sqrt(log m)), |V_C|_inf <=
        o(sqrt(log m)) and d = O(log m) holds, then Algorithm 2 outputs a matrix T within time complexity of
        O(L^2 d) that satisfies: |T - PrefixAttn(X,P)|_inf <= 1/poly(m).""",
    rests_on=("P1/lemma-j.7", "P1/equation-7"),
    plain="""The main theorem on approximation. Within its own conditions the features outnumber every
        power of m, since its lemma is for QK'/d; and the values of the tokens must be bounded.""",
    failure=Failure(
        "P1/theorem-4.1",
        (
            "Theorem 4.1 and Corollary J.3 fall as printed; for bounded values the error bound holds at the "
            "cost L^2 d + L r d, and r = m^o(1) needs QK'/d"
        ),
        "in the limit m to infinity; r exceeds m already at m = 4 and is m^2.8 at m = 2^10",
        root="a lemma for QK'/d is used for QK'/sqrt d, and the values of the tokens are not bounded",
    ),
    proof=attention.too_many_features,
    quick={
        "L": 32,
        "d": 3,
        "bounds": [0.5, 1.0],
        "lengths": [2**i for i in range(6, 15, 2)],
        "order": None,
        "token_values": [1e4, 1e5, 1e6, 1e7],
        "powers": [10, 20, 40, 80],
        "regime": [10, 20, 40, 80, 160],
        "scale": 0.5,
    },
    full={"L": 64, "d": 4, "bounds": [0.25, 0.5, 1.0], "lengths": [2**i for i in range(6, 17, 2)]},
    seconds=1.0,
)
def theorem_4_1(settings: Settings, seed: int) -> Finding:
    """If Z and k satisfy Eq. (7), the entries of Q, K_C and V_C are o(sqrt(log m)) and d = O(log m), then
    NTK-Attention differs from prefix attention by at most 1/poly(m) and takes time O(L^2 d). The statement
    does not bound the values of the tokens.
    """
    # Choose the order so that the error is below 1/m; measure its cost and the effect of large values.
    shortest = settings.lengths[0]
    widest = max(settings.bounds)
    runs = {bound: _errors(settings, bound, seed) for bound in settings.bounds}
    sizes = [number_of_features(settings.d, widest, 2.0**k) for k in settings.powers]
    named = [features_in_regime(k, settings.scale) for k in settings.regime]
    return Finding(
        hypotheses=(
            Hypothesis("bound on the entries", "<=", math.sqrt(math.log(shortest)), widest, in_limit=True),
            Hypothesis("d", "<=", math.log(shortest), settings.d, in_limit=True),
        ),
        conclusions=(
            _regime_trend(settings.regime, named),
            _cost_trend(settings, sizes),
            token_trend(settings, shortest, widest, seed),
            *(_error_times_m(settings.lengths, bound, run) for bound, run in runs.items()),
            *(line for bound, run in runs.items() for line in _powers_of_fixed_maps(settings, bound, run)),
        ),
        numbers={
            **by_size("features for 1/m, m = 2^{}", settings.powers, sizes),
            **{
                f"log r / log m, d = log m, B = (log m)^0.4, m = 2^{k}": math.log(r) / (k * math.log(2))
                for k, r in zip(settings.regime, named, strict=True)
            },
        },
        figures=tuple(_error_figure(settings.lengths, bound, run) for bound, run in runs.items()),
        remark="Lemma J.7 is for QK'/d, Algorithm 2 has QK'/sqrt d. With d = log m and B = (log m)^0.4 the "
        "logits reach (log m)^1.3, and the features are more than every power of m, more than the prefix "
        "itself. With fixed d and B, r still grows with m at fixed L, like a power of log m. The statement "
        "does not bound the values of the tokens, and the error is proportional to them if they are large. "
        "The error is below 1/m because the order is chosen for that.",
    )


def number_of_features(d: int, bound: float, m: float) -> int:
    """Return how many Taylor features guarantee an error below 1/m, for entries in [-bound, bound]."""
    order = order_for(bound**2 * math.sqrt(d), 1 / (1 + 2 * bound * m))
    return math.comb(d + order, order)


def features_in_regime(log2_m: int, scale: float) -> int:
    """Return r for d = log m and B = (log m)^0.4 if the logits are Q K'/d^scale, rounding d up."""
    log_m = log2_m * math.log(2)
    d = math.ceil(log_m)
    bound = log_m**0.4
    order = order_for(bound**2 * d ** (1 - scale), 1 / (1 + 2 * bound * 2.0**log2_m))
    return math.comb(d + order, order)


def _regime_trend(powers: list[int], sizes: list[int]) -> Conclusion:
    """Return the trend of L r d / (L^2 d) with L = m, the largest L that Figure 1 could mean."""
    name = "features r / prefix length m, d = log m, B = (log m)^0.4, over m"
    ratios = [float(Fraction(size, 2**power)) for power, size in zip(powers, sizes, strict=True)]
    part = "cost in the regime of the theorem"
    return no_growth(name, [2.0**power for power in powers], ratios, part=part)


def _error_times_m(lengths: list[int], bound: float, run: Errors) -> Conclusion:
    largest = max(error * m for error, m in zip(run.grown, lengths, strict=True))
    name = f"largest error x m, entries in [-{bound:g}, {bound:g}], order chosen per m"
    return comparison(name, "<=", 1.0, largest)


def _cost_trend(settings: Settings, sizes: list[int]) -> Conclusion:
    """Return the trend of the cost L r d of r features in units of the printed L^2 d."""
    name = f"L r d / (L^2 d) with the features that guarantee 1/m, L = {settings.L}, over log m"
    costs = [size / settings.L for size in sizes]
    return no_growth(name, settings.powers, costs, part="cost at fixed L")


def token_trend(settings: Settings, m: int, bound: float, seed: int) -> Conclusion:
    """Return the trend of the error over the size of the tokens' values, which the statement does not
    bound.
    """
    prefix = BoundedPrefix.draw(m, settings.L, settings.d, bound, seed)
    phi = growing_map(settings.d, bound, m, settings.order)
    errors = [replace(prefix, V=value * prefix.V).error(phi).sup for value in settings.token_values]
    name = f"error over the size of the tokens' values, m = {m}"
    part = "unbounded values of the tokens"
    return no_growth(name, settings.token_values, errors, part=part)


def _powers_of_fixed_maps(settings: Settings, bound: float, run: Errors) -> list[Conclusion]:
    """Fit c in error ~ m^-c between the shortest and the longest prefix, for maps of fixed size."""
    longer = math.log(settings.lengths[-1] / settings.lengths[0])
    return [
        comparison(
            f"c in error ~ m^-c, {name}, entries in [-{bound:g}, {bound:g}]",
            ">=",
            1.0,
            math.log(errors[0] / errors[-1]) / longer,
        )
        for name, errors in run.fixed.items()
    ]


def _errors(settings: Settings, bound: float, seed: int) -> Errors:
    d = settings.d
    maps = fixed_maps(settings.d)
    prefixes = [BoundedPrefix.draw(m, settings.L, d, bound, seed) for m in settings.lengths]
    chosen = [growing_map(d, bound, m, settings.order) for m in settings.lengths]
    return Errors(
        grown=[prefix.error(phi).sup for prefix, phi in zip(prefixes, chosen, strict=True)],
        fixed={name: [prefix.error(phi).sup for prefix in prefixes] for name, phi in maps.items()},
    )


def _error_figure(lengths: list[int], bound: float, run: Errors) -> Figure:
    return plot(
        f"Error over the prefix length, entries in [-{bound:g}, {bound:g}]",
        ("prefix length m", "largest error of the output"),
        *(Series.of(name, lengths, errors) for name, errors in run.fixed.items()),
        Series.of("Taylor, order chosen for m", lengths, run.grown),
        Series.of("1/m", lengths, [1 / m for m in lengths], kind="bound"),
    )
