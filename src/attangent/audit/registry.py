"""All claims by id. A module under `audit.papers` registers its checks with the `claim` decorator."""

import difflib
import pkgutil
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from typing import Any

from attangent._errors import AttangentError
from attangent.audit.claim import Check, Claim, Settings, claim_order

_claims: dict[str, Claim] = {}


def claim(
    id: str,
    *,
    place: str,
    title: str,
    statement: str,
    quick: dict[str, Any],
    full: dict[str, Any] | None = None,
    seeds: int = 3,
    seconds: float = 1.0,
    data: tuple[str, ...] = (),
) -> Callable[[Check], Check]:
    """Register the decorated check under `id`. `full` names only what differs from `quick`."""

    def register(check: Check) -> Check:
        if id in _claims:
            raise AttangentError(f"claim {id} is registered twice")
        settings = Settings(**quick)
        _claims[id] = Claim(
            id=id,
            place=place,
            title=title,
            statement=" ".join(statement.split()),
            check=check,
            quick=settings,
            full=settings | (full or {}),
            seeds=seeds,
            seconds=seconds,
            data=data,
        )
        return check

    return register


def all_claims() -> dict[str, Claim]:
    """Every registered claim, ordered by paper and id."""
    _load_papers()
    return dict(sorted(_claims.items(), key=lambda item: claim_order(item[0])))


def get(id: str) -> Claim:
    """The claim of this id."""
    claims = all_claims()
    if id not in claims:
        raise AttangentError(_unknown("claim id", id, claims))
    return claims[id]


def select(patterns: Iterable[str] = (), paper: str | None = None) -> list[Claim]:
    """Claims whose id is named or matches a pattern such as `P2/lemma-*`; all of them where none is given."""
    claims = all_claims()
    papers = sorted({claim.paper for claim in claims.values()})
    if paper is not None and paper not in papers:
        raise AttangentError(f"unknown paper {paper!r}, expected one of {', '.join(papers)}")
    wanted = list(patterns)
    for pattern in wanted:
        if not any(fnmatchcase(id, pattern) for id in claims):
            raise AttangentError(_unknown("claim id", pattern, claims))
    return [
        claim
        for id, claim in claims.items()
        if (not wanted or any(fnmatchcase(id, pattern) for pattern in wanted))
        and (paper is None or claim.paper == paper)
    ]


def _unknown(what: str, given: str, claims: dict[str, Claim]) -> str:
    close = difflib.get_close_matches(given, claims, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    return f"unknown {what} {given!r}: {hint}valid ids: {', '.join(claims)}"


@cache
def _load_papers() -> None:
    from attangent.audit import papers

    for module in pkgutil.walk_packages(papers.__path__, papers.__name__ + "."):
        import_module(module.name)
