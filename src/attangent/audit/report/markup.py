"""Numbers, formulas and settings as HTML: the filters of the report's templates."""

import json
import math
from collections.abc import Callable
from typing import Any

from markupsafe import Markup

from attangent.audit.finding import Conclusion
from attangent.audit.report.phrases import missed, values
from attangent.audit.report.readable import duration, formula, power_of_ten, readable
from attangent.audit.results import Spread
from attangent.audit.storing.record import plain


def number(value: float, log10: bool = False) -> Markup:
    """`value` as text, with all its digits where the pointer rests on it."""
    return _exact(value, power_of_ten(value) if log10 else readable(value), log10)


def line_values(line: Conclusion) -> tuple[Markup, Markup]:
    """What was measured and its bound, with as many digits as tell them apart."""
    measured, bound = values(line)
    return _exact(line.measured, measured, line.log10), _exact(line.bound, bound, line.log10)


def _exact(value: float, text: str, log10: bool) -> Markup:
    exact = f"10^{value!r}" if log10 else repr(value)
    return Markup('<data value="{}" title="{}">{}</data>').format(exact, exact, maths(text))


def maths(text: str) -> Markup:
    """`text` with its exponents and indices set as such; ^ stays in it for copying and screen readers."""
    raised = Markup('<sup><span class="caret">^</span>{}</sup>')
    tags = {"plain": Markup("{}"), "sup": raised, "sub": Markup("<sub>{}</sub>")}
    return Markup("").join(tags[kind].format(piece) for kind, piece in formula(str(text)))


def spread(over_seeds: Spread) -> Markup:
    """Mean ± deviation and the range; every value where one of them is not finite."""
    if len({repr(value) for value in over_seeds.values}) == 1:
        return number(over_seeds.values[0])
    if not all(math.isfinite(value) for value in over_seeds.values):
        return Markup(", ").join(number(value) for value in over_seeds.values)
    ends = number(over_seeds.low), number(over_seeds.high)
    middle = Markup("{} ± {}").format(number(over_seeds.mean), readable(over_seeds.deviation, 2))
    return Markup('{} <span class="range">{} … {}</span>').format(middle, *ends)


def setting(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)


FILTERS: dict[str, Callable[..., Any]] = {
    "duration": duration,
    "line_values": line_values,
    "maths": maths,
    "missed": missed,
    "number": number,
    "setting": setting,
    "spread": spread,
}
