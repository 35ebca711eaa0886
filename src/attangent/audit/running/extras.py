"""Checks that need an optional dependency come out open where it is not installed."""

import math
from functools import wraps
from importlib.util import find_spec

from attangent.audit.claims import Check, Settings
from attangent.audit.finding import Conclusion, Finding

EXTRA = "adapters"


def needs_adapters(check: Check) -> Check:
    """The check where transformers and peft are installed, an open finding elsewhere."""

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


def outdated(finding: Finding) -> bool:
    """Whether a finding is open for want of packages that have been installed since."""
    return finding.lacks == EXTRA and _installed()


def _installed() -> bool:
    return all(find_spec(name) is not None for name in ("transformers", "peft"))
