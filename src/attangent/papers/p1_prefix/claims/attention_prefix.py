"""Equation (7) and Theorem 4.1: Z and k in place of a prefix, and the error of NTK-Attention."""

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
    title="Z and k replace a prefix",
    quote="Z = sum_j phi(K_C,j) V_C,j' in R^(r x d), k = sum_j phi(K_C,j) in R^r. (7)",
    quick={"m": 256, "L": 24, "d": 3, "bound": 0.8, "orders": [1, 2, 4, 6, 8, 10, 12], "tolerance": 1e-9},
    full={"m": 4096, "L": 64, "d": 4, "orders": [1, 2, 4, 6, 8, 10, 12, 14]},
    seconds=0.5,
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
    return Finding(
        conclusions=(
            Conclusion(
                "error with the highest order", "<=", settings.tolerance, errors[-1], threshold="ours"
            ),
            Conclusion(
                "largest error / bound from the error of the map",
                "<=",
                1.0,
                max(error / allowed for error, allowed in zip(errors, bounds, strict=True)),
            ),
            *(
                Conclusion(
                    f"error of the {name}, which the paper trains", "<=", first_order, error, claimed=False
                )
                for name, error in authors.items()
            ),
        ),
        numbers={
            f"error, order {order}": error for order, error in zip(settings.orders, errors, strict=True)
        },
        figures=(
            Figure(
                title="Error of Equation (7) over the order of the map",
                x_label="order of the Taylor map",
                y_label="largest error of the output",
                series=(
                    Series.of("measured", settings.orders, errors),
                    Series.of("bound from the error of the map", settings.orders, bounds, kind="bound"),
                    *(
                        Series.of(name, settings.orders, [error] * len(errors))
                        for name, error in authors.items()
                    ),
                ),
                log_y=True,
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
    """If Z and k satisfy Eq. (7), the entries of Q, K_C and V_C are o(sqrt(log m)) and d = O(log m), then
    NTK-Attention differs from prefix attention by at most 1/poly(m) and takes time O(L^2 d). The statement
    does not bound the values of the tokens.
    """
    # Choose the order so that the error is below 1/m; measure its cost and the effect of large values.
    shortest = settings.lengths[0]
    widest = max(settings.bounds)
    runs = {bound: _errors(settings, bound, seed) for bound in settings.bounds}
    sizes = [_smallest_size(settings, m, widest, seed) for m in settings.lengths]
    token_errors = [
        _error_with_values(settings, shortest, widest, value, seed) for value in settings.token_values
    ]
    return Finding(
        hypotheses=(
            Hypothesis("bound on the entries", "<=", math.sqrt(math.log(shortest)), widest, in_limit=True),
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
        remark="The error is below 1/m because the order is chosen for that. The number of features r, and "
        "with it the cost L r d, grows with m at fixed L, though more slowly than any power. The statement "
        "does not bound the values of the tokens, and the error is proportional to them if they are large. "
        "Maps of fixed size, such as those of Section 4.2, have an error that does not fall like 1/m.",
    )


def _error_times_m(lengths: list[int], bound: float, run: Errors) -> Conclusion:
    return Conclusion(
        f"largest error x m, entries in [-{bound:g}, {bound:g}], order chosen per m",
        "<=",
        1.0,
        max(error * m for error, m in zip(run.grown, lengths, strict=True)),
        part="error",
    )


def _cost_trend(settings: Settings, sizes: list[int]) -> Conclusion:
    """Return the trend of the cost L r d of r features in units of the printed L^2 d."""
    name = f"L r d / (L^2 d) with the fewest Taylor features for 1/m, L = {settings.L}, over m"
    costs = [size / settings.L for size in sizes]
    return Conclusion.of_trend(name, "<=", at_most(0.0), settings.lengths, costs, part="cost")


def _token_trend(settings: Settings, errors: list[float]) -> Conclusion:
    name = f"error over the size of the tokens' values, m = {settings.lengths[0]}"
    part = "unbounded values of the tokens"
    return Conclusion.of_trend(name, "<=", at_most(0.0), settings.token_values, errors, part=part)


def _powers_of_fixed_maps(settings: Settings, bound: float, run: Errors) -> list[Conclusion]:
    """Fit c in error ~ m^-c between the shortest and the longest prefix, for maps of fixed size."""
    longer = math.log(settings.lengths[-1] / settings.lengths[0])
    return [
        Conclusion(
            f"c in error ~ m^-c, {name}, entries in [-{bound:g}, {bound:g}]",
            ">=",
            1.0,
            math.log(errors[0] / errors[-1]) / longer,
            claimed=False,
        )
        for name, errors in run.fixed.items()
    ]


def _smallest_size(settings: Settings, m: int, bound: float, seed: int) -> int:
    """Return the smallest number of Taylor features whose error is at most 1/m on these data."""
    prefix = BoundedPrefix.draw(m, settings.L, settings.d, bound, seed)
    orders = range(1, 40) if settings.order is None else [settings.order]
    maps = (Taylor(settings.d, order) for order in orders)
    return next((phi.size for phi in maps if prefix.error(phi).sup <= 1 / m), Taylor(settings.d, 40).size)


def _error_with_values(settings: Settings, m: int, bound: float, value: float, seed: int) -> float:
    """Return the error at the order chosen for m if the tokens' values are `value` times as large."""
    prefix = BoundedPrefix.draw(m, settings.L, settings.d, bound, seed)
    phi = growing_map(settings.d, bound, m, settings.order)
    return replace(prefix, V=value * prefix.V).error(phi).sup


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
    return Figure(
        title=f"Error over the prefix length, entries in [-{bound:g}, {bound:g}]",
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
