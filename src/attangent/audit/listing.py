"""Which claims there are, read from their files: no room is imported to list them."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path

from attangent.audit import registry
from attangent.audit.claims import claim_order
from attangent.audit.plugins import Source, sources


@dataclass(frozen=True)
class Entry:
    """A claim as a list shows it."""

    id: str
    place: str
    title: str


def outline(patterns: Iterable[str] = (), paper: str | None = None) -> list[Entry]:
    """The claims that `registry.select` would give, in the same order, or the error that it would raise."""
    named = list(patterns)
    wanted = named or [f"{paper}/*" if paper else "*"]
    found = [
        entry
        for source in sources().values()
        if paper in (None, source.name)
        for entry in _entries(source)
        if any(fnmatchcase(entry.id, pattern) for pattern in wanted)
    ]
    if not found or not all(any(fnmatchcase(entry.id, pattern) for entry in found) for pattern in named):
        return [_entry(claim) for claim in registry.select(named, paper)]
    return sorted(found, key=lambda entry: claim_order(entry.id))


def _entries(source: Source) -> list[Entry]:
    """The claims of a source; a package of somebody else's, or one that computes its ids, is imported."""
    if source.package.startswith("attangent."):
        calls = [call for path in _files(source.package) for call in _claim_calls(path)]
        read = [_read(call) for call in calls]
        entries = [entry for entry in read if entry is not None]
        if len(entries) == len(calls):
            return entries
    return [_entry(claim) for claim in registry.select([], source.name)]


def _files(package: str) -> Iterator[Path]:
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        yield from sorted(Path(folder).rglob("*.py"))


def _claim_calls(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "claim":
            yield node


def _read(call: ast.Call) -> Entry | None:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    values = [*call.args[:1], given.get("place"), given.get("title")]
    texts = [
        value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)
    ]
    return Entry(*texts) if len(texts) == len(values) == 3 else None


def _entry(claim: registry.Claim) -> Entry:
    return Entry(claim.id, claim.place, claim.title)
