"""A check that is made at several sizes, as that of a repaired statement must be."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from attangent.audit.claims import Check, Settings
from attangent.audit.finding import Finding


@dataclass(frozen=True)
class AtSizes:
    """Runs `check` once for each of `sizes`, which change some settings, and joins what it finds."""

    check: Check
    sizes: tuple[Mapping[str, Any], ...]

    def __call__(self, settings: Settings, seed: int) -> Finding:
        found = [(_label(size), self.check(settings | size, seed)) for size in self.sizes]
        return Finding(
            conclusions=tuple(_named(line, at) for at, one in found for line in one.conclusions),
            hypotheses=tuple(_named(line, at) for at, one in found for line in one.hypotheses),
            numbers={f"{name}, {at}": value for at, one in found for name, value in one.numbers.items()},
            figures=tuple(
                replace(figure, title=f"{figure.title}, {at}") for at, one in found for figure in one.figures
            ),
            remark=found[-1][1].remark,
            differs=tuple(dict.fromkeys(difference for _, one in found for difference in one.differs)),
            lacks=found[-1][1].lacks,
        )


def _label(size: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in size.items())


def _named(line: Any, at: str) -> Any:
    return replace(line, name=f"{line.name}, {at}")
