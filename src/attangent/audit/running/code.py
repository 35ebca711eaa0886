"""The version of the code behind a check: a digest of its module and of all it imports from this package."""

import ast
import hashlib
from functools import cache
from importlib.util import find_spec, resolve_name
from pathlib import Path

_ROOT = "attangent"


def code_version(module: str) -> str:
    """A digest of `module` and of every attangent module it imports, however deep.

    A finding is computed anew when this changes, and only then: an edit of one room leaves the findings of
    the others as they are.
    """
    digest = hashlib.sha256()
    for name in sorted(_reachable(module)):
        path = _source(name)
        digest.update(name.encode() + b"\0" + (path.read_bytes() if path else b"") + b"\0")
    return digest.hexdigest()[:16]


def _reachable(module: str) -> set[str]:
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(_imports(name))
    return seen


@cache
def _imports(module: str) -> frozenset[str]:
    path = _source(module)
    if path is None:
        return frozenset()
    found: set[str] = set()
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return frozenset(name for name in found if name.split(".")[0] == _ROOT and _source(name))


@cache
def _source(module: str) -> Path | None:
    """The file of a module of this package; None for names that are not modules."""
    try:
        spec = find_spec(module)
    except (ImportError, AttributeError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None
