"""Claims and a finished run."""

from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def audit_run() -> str:
    """The folder of a finished audit of one claim."""
    from attangent.audit import run

    run(["P1/algorithm-1"], seeds=1, out="finished")
    return "finished"


def _claim() -> Any:
    return next(iter(_claims().values()))


@cache
def _claims() -> dict[str, Any]:
    from attangent.audit import all_claims

    return all_claims()


def _run() -> Any:
    from attangent.audit import load

    return load(audit_run())


INSTANCES: dict[str, Callable[[], Any]] = {
    "Claim": _claim,
    "Run": _run,
}
