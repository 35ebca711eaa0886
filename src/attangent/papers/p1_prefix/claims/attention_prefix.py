"""Equation (7) and Theorem 4.1: what replaces a prefix, and how close it comes."""

import math
from dataclasses import dataclass, replace

from attangent.attention.features import Elu, FeatureMap, PositiveRandom, Printed, Taylor, order_for
from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Hypothesis, Series
from attangent.audit.registry import claim
from attangent.papers.common.trends import at_most
from attangent.papers.p1_prefix.claims.attention_setting import BoundedPrefix, error_from


@claim(
    "P1/equation-7",
    place="Section 4.1, Equations (6) and (7)",
    title="Z and k stand for a prefix",
    quote="Z = sum_j phi(K_C,j) V_C,j' in R^(r x d), k = sum_j phi(K_C,j) in R^r. (7)",
    statement="""If phi(q).phi(k) approximates exp(q.k/sqrt d), then Z = sum_j phi(K_j) V_j' and k =
        sum_j phi(K_j) built from a prefix's keys and values give its attention, with an error that vanishes
        as the approximation becomes exact.""",
    quick={"m": 256, "L": 24, "d": 3, "bound": 0.8, "orders": [1, 2, 4, 6, 8, 10, 12], "tolerance": 1e-9},
    full={"m": 4096, "L": 64, "d": 4, "orders": [1, 2, 4, 6, 8, 10, 12, 14]},
    seconds=0.5,
)
def equation_7(settings: Settings, seed: int) -> Finding:
    d, bound = settings.d, settings.bound
    prefix = BoundedPrefix.draw(settings.m, settings.L, d, bound, seed)
    errors = [prefix.error(Taylor(d, order)).sup for order in settings.orders]
    bounds = [error_from(Taylor(d, order).relative_error(bound), bound) for order in settings.orders]
    authors = {"elu map": prefix.error(Elu(d)).sup, "printed map": prefix.error(Printed(d)).sup}
    first_order = prefix.error(Taylor(d, 1)).sup
    return Finding(
        conclusions=(
            Conclusion(
                "error with the highest order", "<=", settings.tolerance, errors[-1], threshold="ours"
            ),
            Conclusion(
                "largest error over what the map's own error allows",
                "<=",
                1.0,
                max(error / allowed for error, allowed in zip(errors, bounds, strict=True)),
            ),
            *(
                Conclusion(f"error of the {name}, which P1 trains", "<=", first_order, error, claimed=False)
                for name, error in authors.items()
            ),
        ),
        numbers={
            f"error, order {order}": error for order, error in zip(settings.orders, errors, strict=True)
        },
        figures=(
            Figure(
                title="Error of Equation (7) against the order of the map",
                x_label="order of the Taylor map",
                y_label="largest error of the output",
                series=(
                    Series.of("measured", settings.orders, errors),
                    Series.of("allowed by the map's error", settings.orders, bounds, kind="bound"),
                    *(
                        Series.of(name, settings.orders, [error] * len(errors))
                        for name, error in authors.items()
                    ),
                ),
                log_y=True,
            ),
        ),
        remark="Exact in the limit for Taylor features. The maps of the authors' code and of Section 4.2 do "
        "not approximate exp: with them Equation (7) is far from a first-order map with one feature "
        "more.",
    )


def fixed_maps(d: int) -> dict[str, FeatureMap]:
    """Maps whose size does not grow with the prefix."""
    return {
        "elu (authors' code)": Elu(d),
        "printed formula": Printed(d),
        "Taylor, order 1": Taylor(d, 1),
        "Taylor, order 2": Taylor(d, 2),
        "positive random, r = 64": PositiveRandom(d, 64, seed=0),
    }


def growing_map(d: int, bound: float, m: int, order: int | None) -> Taylor:
    """Taylor features of the order at which the error is certain to be below 1/m, or of a given order."""
    if order is not None:
        return Taylor(d, order)
    allowed = 1 / (1 + 2 * bound * m)  # error_from(allowed, bound) = 1/m
    return Taylor(d, order_for(bound**2 * math.sqrt(d), allowed))


@dataclass(frozen=True)
class Errors:
    """Errors of the output against the prefix length: of features that grow with it, and of fixed maps."""

    grown: list[float]
    fixed: dict[str, list[float]]


@claim(
    "P1/theorem-4.1",
    place="Section 4.3, Theorem 4.1 (Theorem J.2)",
    title="NTK-Attention approximates a long prefix",
    quote="""If the condition Eq. (7), |Q|_inf <= o(sqrt(log m)), |K_C|_inf <= o(sqrt(log m)), |V_C|_inf <=
        o(sqrt(log m)) and d = O(log m) holds, then Algorithm 2 outputs a matrix T within time complexity of
        O(L^2 d) that satisfies: |T - PrefixAttn(X,P)|_inf <= 1/poly(m).""",
    statement="""With Z and k from Eq. (7), entries of Q, K_C and V_C bounded by o(sqrt(log m)) and d =
        O(log m), the output of NTK-Attention differs from that of prefix attention by at most
        1/poly(m), whatever the tokens' own values are, at a cost of O(L^2 d).""",
    rests_on=("P1/lemma-j.7", "P1/equation-7"),
    quick={
        "L": 32,
        "d": 3,
        "bounds": [0.5, 1.0],
        "lengths": [2**i for i in range(6, 15, 2)],
        "order": None,
        "token_values": [1e4, 1e5, 1e6, 1e7],
    },
    full={"L": 64, "d": 4, "bounds": [0.25, 0.5, 1.0], "lengths": [2**i for i in range(6, 17, 2)]},
    seconds=1.0,
)
def theorem_4_1(settings: Settings, seed: int) -> Finding:
    """The error is below 1/m by the choice of the order; what that costs, and what large token values do."""
    shortest, widest = settings.lengths[0], max(settings.bounds)
    runs = {bound: _errors(settings, bound, seed) for bound in settings.bounds}
    sizes = [_smallest_size(settings, m, widest, seed) for m in settings.lengths]
    token_errors = [
        _error_with_values(settings, shortest, widest, value, seed) for value in settings.token_values
    ]
    return Finding(
        hypotheses=(
            Hypothesis("bound of the entries", "<=", math.sqrt(math.log(shortest)), widest, in_limit=True),
            Hypothesis("d", "<=", math.log(shortest), settings.d, in_limit=True),
        ),
        conclusions=(
            *(_error_times_m(settings.lengths, bound, run) for bound, run in runs.items()),
            _cost_trend(settings, sizes),
            _token_trend(settings, token_errors),
            *(line for bound, run in runs.items() for line in _powers_of_fixed_maps(settings, bound, run)),
        ),
        numbers={
            **{f"fewest features for 1/m, m = {m}": r for m, r in zip(settings.lengths, sizes, strict=True)},
            **{
                f"error x m with token values {value:g}": error * shortest
                for value, error in zip(settings.token_values, token_errors, strict=True)
            },
        },
        figures=tuple(_error_figure(settings.lengths, bound, run) for bound, run in runs.items()),
        remark="The error is below 1/m because the order is chosen so; the features it takes, and the cost"
        " L r d with them, grow with m at fixed L, more slowly than any power in the end. The "
        "values of the tokens have no bound in the statement, and the error is proportional to them"
        " once they are large. Maps of fixed size, those of Section 4.2 among them, have an error "
        "that does not follow 1/m.",
    )


def _error_times_m(lengths: list[int], bound: float, run: Errors) -> Conclusion:
    return Conclusion(
        f"largest error x m, entries in +-{bound:g}, order chosen for each m",
        "<=",
        1.0,
        max(error * m for error, m in zip(run.grown, lengths, strict=True)),
        part="error",
    )


def _cost_trend(settings: Settings, sizes: list[int]) -> Conclusion:
    """L r d for r features in units of the promised L^2 d."""
    name = f"L r d / (L^2 d) with the fewest Taylor features for 1/m, L = {settings.L}, over m"
    costs = [size / settings.L for size in sizes]
    return Conclusion.of_trend(name, "<=", at_most(0.0), settings.lengths, costs, part="cost")


def _token_trend(settings: Settings, errors: list[float]) -> Conclusion:
    name = f"error over the size of the tokens' values, m = {settings.lengths[0]}"
    part = "any values of the tokens"
    return Conclusion.of_trend(name, "<=", at_most(0.0), settings.token_values, errors, part=part)


def _powers_of_fixed_maps(settings: Settings, bound: float, run: Errors) -> list[Conclusion]:
    """The c of an error ~ m^-c between the shortest and the longest prefix, for each map of fixed size."""
    longer = math.log(settings.lengths[-1] / settings.lengths[0])
    return [
        Conclusion(
            f"c in error ~ m^-c, {name}, entries in +-{bound:g}",
            ">=",
            1.0,
            math.log(errors[0] / errors[-1]) / longer,
            claimed=False,
        )
        for name, errors in run.fixed.items()
    ]


def _smallest_size(settings: Settings, m: int, bound: float, seed: int) -> int:
    """The number of Taylor features of the lowest order whose error is at most 1/m on these data."""
    prefix = BoundedPrefix.draw(m, settings.L, settings.d, bound, seed)
    orders = range(1, 40) if settings.order is None else [settings.order]
    maps = (Taylor(settings.d, order) for order in orders)
    return next((phi.size for phi in maps if prefix.error(phi).sup <= 1 / m), Taylor(settings.d, 40).size)


def _error_with_values(settings: Settings, m: int, bound: float, value: float, seed: int) -> float:
    """The error at the order chosen for m where the tokens' values are `value` times as large."""
    prefix = BoundedPrefix.draw(m, settings.L, settings.d, bound, seed)
    phi = growing_map(settings.d, bound, m, settings.order)
    return replace(prefix, V=value * prefix.V).error(phi).sup


def _errors(settings: Settings, bound: float, seed: int) -> Errors:
    d, maps = settings.d, fixed_maps(settings.d)
    prefixes = [BoundedPrefix.draw(m, settings.L, d, bound, seed) for m in settings.lengths]
    chosen = [growing_map(d, bound, m, settings.order) for m in settings.lengths]
    return Errors(
        grown=[prefix.error(phi).sup for prefix, phi in zip(prefixes, chosen, strict=True)],
        fixed={name: [prefix.error(phi).sup for prefix in prefixes] for name, phi in maps.items()},
    )


def _error_figure(lengths: list[int], bound: float, run: Errors) -> Figure:
    return Figure(
        title=f"Error against the prefix length, entries in +-{bound:g}",
        x_label="prefix length m",
        y_label="largest error of the output",
        series=(
            *(Series.of(name, lengths, errors) for name, errors in run.fixed.items()),
            Series.of("Taylor, order chosen for m", lengths, run.grown),
            Series.of("1/m", lengths, [1 / m for m in lengths], kind="bound"),
        ),
        log_x=True,
        log_y=True,
    )
