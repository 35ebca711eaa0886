"""Checks with conditions: run at several sizes, run only if optional packages are installed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import wraps
from importlib.util import find_spec
from typing import Any

from attangent.audit.claims import Check, Settings
from attangent.audit.finding import Conclusion, Finding

EXTRA = "adapters"


@dataclass(frozen=True)
class AtSizes:
    """Run `check` once per entry of `sizes`, which overrides some settings, and join the findings."""

    check: Check
    sizes: tuple[Mapping[str, Any], ...]

    def __call__(self, settings: Settings, seed: int) -> Finding:
        findings = [(_label(size), self.check(settings | size, seed)) for size in self.sizes]
        last = findings[-1][1]
        return Finding(
            conclusions=tuple(_named(line, at) for at, finding in findings for line in finding.conclusions),
            hypotheses=tuple(_named(line, at) for at, finding in findings for line in finding.hypotheses),
            numbers={
                f"{name}, {at}": value for at, finding in findings for name, value in finding.numbers.items()
            },
            figures=tuple(
                replace(figure, title=f"{figure.title}, {at}")
                for at, finding in findings
                for figure in finding.figures
            ),
            remark=last.remark,
            differs=tuple(dict.fromkeys(text for _, finding in findings for text in finding.differs)),
            lacks=last.lacks,
            smaller=last.smaller,
        )


def _label(size: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in size.items())


def _named(line: Any, at: str) -> Any:
    return replace(line, name=f"{line.name}, {at}")


def needs_adapters(check: Check) -> Check:
    """Run the check only if transformers and peft are installed; otherwise return an open finding."""

    @wraps(check)
    def guarded(settings: Settings, seed: int) -> Finding:
        if not _installed():
            return Finding(
                conclusions=(Conclusion("not measured", ">=", 1.0, math.nan),),
                remark=f"Install attangent[{EXTRA}] (transformers, peft), then run this claim again.",
                lacks=EXTRA,
            )
        return check(settings, seed)

    return guarded


def is_outdated(finding: Finding) -> bool:
    """Return whether a finding is open only because packages were missing that are installed now."""
    return finding.lacks == EXTRA and _installed()


def _installed() -> bool:
    return all(find_spec(name) is not None for name in ("transformers", "peft"))
