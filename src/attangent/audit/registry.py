"""All claims by id. The modules of a paper's package register their checks with the `claim` decorator."""

import ast
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attangent._core.errors import AttangentError
from attangent.audit.checks import AtSizes
from attangent.audit.claims import (
    Check,
    Claim,
    Failure,
    Kind,
    Nature,
    Settings,
    claim_order,
    kind_of,
    kind_of_nature,
    nature_of,
)
from attangent.audit.plugins import ClaimPackage, claim_packages, refused
from attangent.audit.proofs import Proof

_claims: dict[str, Claim] = {}
_unusable: dict[str, str] = {}


def claim(
    id: str,
    *,
    place: str = "",
    title: str,
    quick: dict[str, Any],
    statement: str = "",
    full: dict[str, Any] | None = None,
    seeds: int = 3,
    full_seeds: int | None = None,
    seconds: float = 0.2,
    data: tuple[str, ...] = (),
    kind: Kind | None = None,
    quote: str = "",
    rests_on: tuple[str, ...] = (),
    repairs: str = "",
    derivation: str = "",
    sharp: str = "",
    nature: Nature | None = None,
    plain: str = "",
    failure: Failure | None = None,
    proof: Callable[[], Proof] | None = None,
    erratum: str = "",
    ours: tuple[str, ...] = (),
    unconditional: bool = False,
    sizes: Sequence[Mapping[str, Any]] = (),
) -> Callable[[Check], Check]:
    """Register the decorated check as the claim `id`.

    Args:
        id: The id, such as P2/lemma-5.1.
        place: Its section and number in the paper; by default "ours" for a repair.
        title: The statement in a few words.
        quick: The settings of the quick profile.
        statement: The statement in our words; by default the docstring of the check.
        full: The settings that differ in the full profile.
        seeds: Number of seeds per run.
        full_seeds: Number of seeds in the full profile, if it differs.
        seconds: Estimated time of one seed on one core in the quick profile, if that is not short.
        data: The files below ATTANGENT_DATA that the check reads.
        kind: By default it follows from the nature or the id; a repair is ours.
        quote: The paper's sentence.
        rests_on: The claims that the proof uses.
        repairs: The claim that this statement repairs; by default the one named by an id that ends in
            -repaired.
        derivation: Why a repaired statement is right.
        sharp: Whether a repaired bound is sharp.
        nature: What the statement is in the paper, such as "main result" or "proof step"; by default it
            follows from the id.
        plain: One sentence for people: what is printed, what is true, whether a main result falls.
        failure: Cause and consequence, for a statement that fails.
        proof: A function that returns an exact argument; it decides a statement with `failure`.
        erratum: An author's reply, an erratum, or the withdrawal of the paper; by default that of PAPER.
        ours: Quantifiers or conditions that we added to the statement.
        unconditional: Whether the paper states no hypothesis at all.
        sizes: Run the check once per entry, which overrides some settings.

    Returns:
        A decorator that returns the check unchanged.

    Raises:
        AttangentError: If the id is malformed or taken, or a repair lacks what it needs.

    Example:
        >>> from attangent.audit import Conclusion, Finding
        >>> @claim("Mine/lemma-1", place="Section 1", title="t", statement="1 <= 2", quick={})
        ... def compare(settings, seed):
        ...     return Finding(conclusions=(Conclusion("1", "<=", 2.0, 1.0),))
        >>> compare(Settings(), 0).verdict.value
        'holds'
        >>> _ = _claims.pop("Mine/lemma-1")
    """
    repairs = repairs or _repaired_by(id)
    if not (place or repairs):
        raise AttangentError(f"{id} needs a place: its section and number in the paper")
    settings = Settings(**quick)
    resolved_kind = kind or ("ours" if repairs else kind_of_nature(nature or "") or kind_of(id))
    described = partial(
        Claim,
        id=id,
        place=place or "ours",
        title=title,
        quick=settings,
        full=settings | (full or {}),
        seeds=seeds,
        full_seeds=full_seeds,
        seconds=seconds,
        data=data,
        kind=resolved_kind,
        quote=_one_line(quote),
        rests_on=rests_on,
        repairs=repairs,
        derivation=_one_line(derivation),
        sharp=_one_line(sharp),
        nature=nature or nature_of(id, resolved_kind),
        plain=_one_line(plain),
        failure=failure,
        proof=proof,
        erratum=_one_line(erratum),
        ours=ours,
        unconditional=unconditional,
    )

    def register(check: Check) -> Check:
        text = _one_line(statement or check.__doc__ or "")
        _add(described(statement=text, check=AtSizes(check, tuple(sizes)) if sizes else check))
        return check

    return register


def _repaired_by(id: str) -> str:
    """Return the claim that `id` repairs by its name: P2/lemma-1 for P2/lemma-1-repaired."""
    repaired, ending, rest = id.rpartition("-repaired")
    return repaired if ending and not rest else ""


def _add(claim: Claim) -> None:
    if claim.id in _claims:
        raise AttangentError(f"claim {claim.id} is registered twice")
    _claims[claim.id] = claim


def _one_line(text: str) -> str:
    return " ".join(text.split())


def all_claims() -> dict[str, Claim]:
    """Return every registered claim by id, sorted by paper and id.

    Example:
        >>> "P2/lemma-5.1" in all_claims()
        True
    """
    return _claims_of(_paper_names())


def get(id: str) -> Claim:
    """Return the claim with this id.

    Args:
        id: The id, such as P2/lemma-5.1.

    Returns:
        The claim.

    Raises:
        AttangentError: If there is no such claim.

    Example:
        >>> get("P2/lemma-5.1").kind
        'theorem'
    """
    claims = _claims_of(_papers_that_may_hold([id]))
    if id not in claims:
        raise AttangentError(_unknown(id))
    return claims[id]


def select(patterns: Iterable[str] = (), paper: str | None = None) -> list[Claim]:
    """Return the claims that match an id or a pattern such as `P2/lemma-*`, by default all.

    Only the papers that may hold them are imported.
    """
    if paper is not None and paper not in _paper_names():
        raise AttangentError(f"unknown paper {paper!r}; expected one of {', '.join(_paper_names())}")
    named = list(patterns)
    wanted = named or [f"{paper}/*" if paper else "*"]
    claims = _claims_of(_papers_that_may_hold(wanted))
    for pattern in named:
        if not any(fnmatchcase(id, pattern) for id in claims):
            raise AttangentError(_unknown(pattern))
    return [
        claim
        for id, claim in claims.items()
        if any(fnmatchcase(id, pattern) for pattern in wanted) and paper in (None, claim.paper)
    ]


def left_out() -> dict[str, str]:
    """Return the packages of claims that cannot be used, by the name of their paper, and why."""
    return {**refused(), **_unusable}


def _unknown(id: str) -> str:
    claims = all_claims()
    close = difflib.get_close_matches(id, claims, n=3, cutoff=0.5)
    meant = f"did you mean {' or '.join(close)}? " if close else ""
    return f"unknown claim id {id!r}: {meant}`attangent audit --list` lists all {len(claims)}"


def _claims_of(papers: Sequence[str]) -> dict[str, Claim]:
    for paper in papers:
        _load_paper(paper)
    claims = {id: claim for id, claim in _claims.items() if claim.paper in papers}
    return dict(sorted(claims.items(), key=lambda item: claim_order(item[0])))


def _papers_that_may_hold(patterns: Iterable[str]) -> list[str]:
    return [paper for paper in _paper_names() if any(_may_match(pattern, paper) for pattern in patterns)]


def _may_match(pattern: str, paper: str) -> bool:
    """Return whether an id of the paper could match, judging by the text before the first wildcard."""
    literal = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    start = f"{paper}/"
    return literal.startswith(start) or start.startswith(literal)


def _paper_names() -> list[str]:
    return sorted(claim_packages())


@cache
def _load_paper(paper: str) -> None:
    """Import the claims of a paper; a plug-in that fails is skipped, with the reason in `left_out`."""
    package = claim_packages()[paper]
    if package.package.startswith("attangent."):
        package.load()
        _add_erratum(package)
        return
    before = set(_claims)
    try:
        package.load()
        _check_names(paper, set(_claims) - before)
        _add_erratum(package)
    except Exception as error:  # it may fail in any way
        for id in set(_claims) - before:
            del _claims[id]
        _unusable[paper] = f"{package.package} cannot be used: {type(error).__name__}: {error}"


def _add_erratum(package: ClaimPackage) -> None:
    """Give the paper's erratum to its claims that name none."""
    paper = package.paper()
    for id, claim in _claims.items():
        if paper and claim.paper == package.name and not claim.erratum:
            _claims[id] = replace(claim, erratum=paper.erratum)


def _check_names(paper: str, ids: Iterable[str]) -> None:
    foreign = [id for id in ids if not id.startswith(f"{paper}/")]
    if foreign:
        raise AttangentError(f"its claim ids must start with {paper}/ (got {', '.join(sorted(foreign))})")


@dataclass(frozen=True)
class ListedClaim:
    """A claim as a list shows it."""

    id: str
    place: str
    title: str
    nature: str = ""


def list_claims(patterns: Iterable[str] = (), paper: str | None = None) -> list[ListedClaim]:
    """Return the claims that `registry.select` would return, or raise the same error."""
    named = list(patterns)
    wanted = named or [f"{paper}/*" if paper else "*"]
    listed = [
        claim
        for package in claim_packages().values()
        if paper in (None, package.name)
        for claim in _claims_listed_in(package)
        if any(fnmatchcase(claim.id, pattern) for pattern in wanted)
    ]
    if not listed or not all(any(fnmatchcase(claim.id, pattern) for claim in listed) for pattern in named):
        return _selected(named, paper)
    return sorted(listed, key=lambda claim: claim_order(claim.id))


def _claims_listed_in(package: ClaimPackage) -> list[ListedClaim]:
    """Return the claims of a package; plug-ins, and packages that compute their ids, are imported."""
    if package.package.startswith("attangent."):
        read = [_read_call(call) for path in _files(package.package) for call in _claim_calls(path)]
        claims = [claim for claim in read if claim is not None]
        if len(claims) == len(read):
            return claims
    return _selected([], package.name)


def _selected(patterns: list[str], paper: str | None) -> list[ListedClaim]:
    claims = select(patterns, paper)
    return [
        ListedClaim(claim.id, claim.place, claim.title, "ours" if claim.kind == "ours" else claim.nature)
        for claim in claims
    ]


def _files(package: str) -> Iterator[Path]:
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        yield from sorted(Path(folder).rglob("*.py"))


def _claim_calls(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "claim":
            yield node


def _read_call(call: ast.Call) -> ListedClaim | None:
    """Return the claim that a call registers, or None if its texts are computed."""
    arguments = {keyword.arg: keyword.value for keyword in call.keywords}
    id = _constant(call.args[0] if call.args else None)
    kind = _constant(arguments.get("kind"))
    is_ours = kind == "ours" or "repairs" in arguments or bool(_repaired_by(id))
    place = _constant(arguments.get("place")) if "place" in arguments or not is_ours else "ours"
    title = _constant(arguments.get("title"))
    if not (id and place and title):
        return None
    nature = "ours" if is_ours else _constant(arguments.get("nature")) or nature_of(id, kind)
    return ListedClaim(id, place, title, nature)


def _constant(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
