"""All claims by id. A module of a paper's package registers its checks with the `claim` decorator."""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, partial
from typing import Any

from attangent._core.errors import AttangentError
from attangent.audit.claims import Check, Claim, Kind, Settings, claim_order, kind_of
from attangent.audit.plugins import refused, sources
from attangent.audit.sizes import AtSizes

_claims: dict[str, Claim] = {}
_unusable: dict[str, str] = {}


def claim(
    id: str,
    *,
    place: str,
    title: str,
    statement: str,
    quick: dict[str, Any],
    full: dict[str, Any] | None = None,
    seeds: int = 3,
    full_seeds: int | None = None,
    seconds: float = 1.0,
    data: tuple[str, ...] = (),
    kind: Kind | None = None,
    quote: str = "",
    rests_on: tuple[str, ...] = (),
    repairs: str = "",
    derivation: str = "",
    sizes: Sequence[Mapping[str, Any]] = (),
) -> Callable[[Check], Check]:
    """Register the decorated check under `id`. `full` names only what differs from `quick`.

    `kind` follows from the id where none is given: ours for what repairs a claim, theorem for a lemma,
    experiment for a figure. With `sizes` the check is made once for each of them, the settings changed
    accordingly. What else may be said of a claim: see `Claim`.
    """
    settings = Settings(**quick)
    described = partial(
        Claim,
        id=id,
        place=place,
        title=title,
        statement=_one_line(statement),
        quick=settings,
        full=settings | (full or {}),
        seeds=seeds,
        full_seeds=full_seeds,
        seconds=seconds,
        data=data,
        kind=kind or ("ours" if repairs else kind_of(id)),
        quote=_one_line(quote),
        rests_on=rests_on,
        repairs=repairs,
        derivation=_one_line(derivation),
    )

    def register(check: Check) -> Check:
        _add(described(check=AtSizes(check, tuple(sizes)) if sizes else check))
        return check

    return register


def _add(claim: Claim) -> None:
    if claim.id in _claims:
        raise AttangentError(f"claim {claim.id} is registered twice")
    _claims[claim.id] = claim


def _one_line(text: str) -> str:
    return " ".join(text.split())


def all_claims() -> dict[str, Claim]:
    """Every registered claim, ordered by paper and id."""
    return _claims_of(_paper_names())


def get(id: str) -> Claim:
    """The claim of this id.

    >>> get("P2/lemma-5.1").title
    'A small move of the weights moves the kernel little'
    """
    claims = _claims_of(_papers_that_may_hold([id]))
    if id not in claims:
        raise AttangentError(_unknown("claim id", id))
    return claims[id]


def select(patterns: Iterable[str] = (), paper: str | None = None) -> list[Claim]:
    """Claims whose id is named or matches a pattern such as `P2/lemma-*`; all of them where none is given.

    Only the papers that may hold them are imported.
    """
    if paper is not None and paper not in _paper_names():
        raise AttangentError(f"unknown paper {paper!r}, expected one of {', '.join(_paper_names())}")
    named = list(patterns)
    wanted = named or [f"{paper}/*" if paper else "*"]
    claims = _claims_of(_papers_that_may_hold(wanted))
    for pattern in named:
        if not any(fnmatchcase(id, pattern) for id in claims):
            raise AttangentError(_unknown("claim id", pattern))
    return [
        claim
        for id, claim in claims.items()
        if any(fnmatchcase(id, pattern) for pattern in wanted) and paper in (None, claim.paper)
    ]


def left_out() -> dict[str, str]:
    """Packages of claims that cannot be used, by the name of their paper, and why."""
    return {**refused(), **_unusable}


def _unknown(what: str, given: str) -> str:
    claims = all_claims()
    close = difflib.get_close_matches(given, claims, n=3, cutoff=0.5)
    meant = f"did you mean {' or '.join(close)}? " if close else ""
    return f"unknown {what} {given!r}: {meant}`attangent audit --list` shows all {len(claims)}"


def _claims_of(papers: Sequence[str]) -> dict[str, Claim]:
    for paper in papers:
        _load_paper(paper)
    found = {id: claim for id, claim in _claims.items() if claim.paper in papers}
    return dict(sorted(found.items(), key=lambda item: claim_order(item[0])))


def _papers_that_may_hold(patterns: Iterable[str]) -> list[str]:
    wrong = [pattern for pattern in patterns if not isinstance(pattern, str)]
    if wrong:
        raise AttangentError(f"an id is {wrong[0]!r}, expected a text such as 'P2/lemma-*'")
    return [paper for paper in _paper_names() if any(_may_match(pattern, paper) for pattern in patterns)]


def _may_match(pattern: str, paper: str) -> bool:
    """Whether an id of the paper could match: what stands before the first wildcard decides."""
    literal, start = re.split(r"[*?\[]", pattern, maxsplit=1)[0], f"{paper}/"
    return literal.startswith(start) or start.startswith(literal)


def _paper_names() -> list[str]:
    return sorted(sources())


@cache
def _load_paper(paper: str) -> None:
    """Import the claims of a paper; a package of somebody else's that fails is noted and left out."""
    source = sources()[paper]
    if source.package.startswith("attangent."):
        source.load()
        return
    before = set(_claims)
    try:
        source.load()
        _check_names(paper, set(_claims) - before)
    except Exception as error:  # it may fail in any way
        for id in set(_claims) - before:
            del _claims[id]
        _unusable[paper] = f"{source.package} cannot be used: {type(error).__name__}: {error}"


def _check_names(paper: str, ids: Iterable[str]) -> None:
    foreign = [id for id in ids if not id.startswith(f"{paper}/")]
    if foreign:
        raise AttangentError(f"its claims should be named {paper}/..., not {', '.join(sorted(foreign))}")
