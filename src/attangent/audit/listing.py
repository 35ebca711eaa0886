"""List claims by reading their files, without importing the rooms they use."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path

from attangent.audit import registry
from attangent.audit.claims import Claim, claim_order, nature_of
from attangent.audit.plugins import ClaimPackage, claim_packages


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
        for claim in _claims(package)
        if any(fnmatchcase(claim.id, pattern) for pattern in wanted)
    ]
    if not listed or not all(any(fnmatchcase(claim.id, pattern) for claim in listed) for pattern in named):
        return _selected(named, paper)
    return sorted(listed, key=lambda claim: claim_order(claim.id))


def _claims(package: ClaimPackage) -> list[ListedClaim]:
    """Return the claims of a package; plug-ins, and packages that compute their ids, are imported."""
    if package.package.startswith("attangent."):
        read = [_read(call) for path in _files(package.package) for call in _claim_calls(path)]
        claims = [claim for claim in read if claim is not None]
        if len(claims) == len(read):
            return claims
    return _selected([], package.name)


def _selected(patterns: list[str], paper: str | None) -> list[ListedClaim]:
    claims = registry.select(patterns, paper)
    return [ListedClaim(claim.id, claim.place, claim.title, _nature(claim)) for claim in claims]


def _nature(claim: Claim) -> str:
    return "ours" if claim.kind == "ours" else claim.nature or nature_of(claim.id, claim.kind)


def _files(package: str) -> Iterator[Path]:
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        yield from sorted(Path(folder).rglob("*.py"))


def _claim_calls(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "claim":
            yield node


def _read(call: ast.Call) -> ListedClaim | None:
    """Return the claim that a call registers, or None if its texts are computed."""
    arguments = {keyword.arg: keyword.value for keyword in call.keywords}
    id = _constant(call.args[0] if call.args else None)
    place = _constant(arguments.get("place"))
    title = _constant(arguments.get("title"))
    if not (id and place and title):
        return None
    kind = _constant(arguments.get("kind"))
    is_ours = kind == "ours" or "repairs" in arguments
    nature = "ours" if is_ours else _constant(arguments.get("nature")) or nature_of(id, kind)
    return ListedClaim(id, place, title, nature)


def _constant(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
