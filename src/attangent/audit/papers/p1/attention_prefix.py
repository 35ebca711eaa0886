"""Equation (7) and Theorem 4.1: what replaces a prefix, and how close it comes."""

import math
from dataclasses import dataclass

from attangent.attention.features import Elu, FeatureMap, PositiveRandom, Printed, Taylor, order_for
from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Hypothesis, Series
from attangent.audit.papers.p1.bounded_prefix import BoundedPrefix, error_from
from attangent.audit.registry import claim


@claim(
    "P1/equation-7",
    place="Section 4.1, Equations (6) and (7)",
    title="Z and k stand for a prefix",
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
            Conclusion("error with the highest order", "<=", settings.tolerance, errors[-1]),
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


@claim(
    "P1/theorem-4.1",
    place="Section 4.3, Theorem 4.1 (Theorem J.2)",
    title="NTK-Attention approximates a long prefix",
    statement="""With Z and k from Eq. (7), entries of Q, K_C and V_C bounded by o(sqrt(log m)) and d =
        O(log m), the output of NTK-Attention differs from that of prefix attention by at most
        1/poly(m).""",
    quick={"L": 32, "d": 4, "bounds": [0.5, 1.0], "lengths": [2**i for i in range(6, 15, 2)], "order": None},
    full={"L": 64, "bounds": [0.25, 0.5, 1.0], "lengths": [2**i for i in range(6, 17, 2)]},
    seconds=1.0,
)
def theorem_4_1(settings: Settings, seed: int) -> Finding:
    shortest, longest = settings.lengths[0], settings.lengths[-1]
    runs = {bound: _errors(settings, bound, seed) for bound in settings.bounds}
    span = math.log(longest / shortest)
    return Finding(
        hypotheses=(
            Hypothesis("bound of the entries", "<=", math.sqrt(math.log(shortest)), max(settings.bounds)),
            Hypothesis("d", "<=", math.log(shortest), settings.d),
        ),
        conclusions=(
            *(
                Conclusion(
                    f"largest error x m, entries in +-{bound:g}, order chosen for each m",
                    "<=",
                    1.0,
                    max(error * m for error, m in zip(run.grown, settings.lengths, strict=True)),
                )
                for bound, run in runs.items()
            ),
            *(
                Conclusion(
                    f"c in error ~ m^-c, {name}, entries in +-{bound:g}",
                    ">=",
                    1.0,
                    math.log(errors[0] / errors[-1]) / span,
                    claimed=False,
                )
                for bound, run in runs.items()
                for name, errors in run.fixed.items()
            ),
        ),
        numbers={
            f"features for 1/m, m = {m}, entries in +-{bound:g}": size
            for bound, run in runs.items()
            for m, size in zip(settings.lengths, run.sizes, strict=True)
        },
        figures=tuple(_error_figure(settings.lengths, bound, run) for bound, run in runs.items()),
        remark="The guarantee holds where the order of the features grows with m, and their number with "
        "it: the cost L r d then depends on m and stays within O(L^2 d) only while r <= L. Every map "
        "of fixed size, those of Section 4.2 among them, has an error that does not follow 1/m.",
    )


@dataclass(frozen=True)
class Errors:
    """Errors of the output against the prefix length: of features that grow with it, and of fixed maps."""

    grown: list[float]
    sizes: list[int]
    fixed: dict[str, list[float]]


def _errors(settings: Settings, bound: float, seed: int) -> Errors:
    d, maps = settings.d, fixed_maps(settings.d)
    prefixes = [BoundedPrefix.draw(m, settings.L, d, bound, seed) for m in settings.lengths]
    chosen = [growing_map(d, bound, m, settings.order) for m in settings.lengths]
    return Errors(
        grown=[prefix.error(phi).sup for prefix, phi in zip(prefixes, chosen, strict=True)],
        sizes=[phi.size for phi in chosen],
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
