"""The version of the code that a check runs: a digest of its module and of every module it uses."""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec, resolve_name
from pathlib import Path

_ROOT = "attangent"
_IRRELEVANT = ("attangent.audit.registry", "attangent.audit.report")
"""Registering a claim and showing a finding do not change what a check measures."""
_HELPERS = ("attangent._core.lazy", "attangent._core.deprecation")
"""Modules that help a package to re-export names; what it exports stays the same object."""


def code_version(module: str) -> str:
    """Return a digest of `module` and of every module it uses from attangent and its own package.

    A finding is recomputed if and only if this changes. A name that a package merely re-exports counts as a
    use of the module that defines it, so an edit in one room leaves the findings of the others valid.
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
        if name not in seen and not any(f"{name}.".startswith(f"{root}.") for root in _IRRELEVANT):
            seen.add(name)
            waiting.extend(_uses(name))
    return seen


@cache
def _uses(module: str) -> frozenset[str]:
    """Return the modules of attangent and of its package that `module` imports, also inside functions."""
    roots = (_ROOT, module.split(".")[0])
    used: set[str] = set()
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            used.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, module)
            if base.split(".")[0] in roots:
                used.update(home for alias in node.names for home in _homes(base, alias.name))
    return frozenset(name for name in used if name.split(".")[0] in roots and _source(name))


def _homes(module: str, name: str) -> set[str]:
    """Return the modules that define what `from module import name` imports."""
    if _source(f"{module}.{name}"):
        return {f"{module}.{name}"}
    if not _only_passes_on(module):
        return {module}
    return {home for base, passed in _passed_on(module, name) for home in _homes(base, passed)} or {module}


def _passed_on(module: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the modules from which a package imports `name`, at its top or in a function."""
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    yield _base(node, module), alias.name


@cache
def _only_passes_on(module: str) -> bool:
    """Return whether a module is a package that consists of re-exports.

    An import for its effect (`import a.b`, a name not in __all__) may fill a registry; the whole package then
    counts as used.
    """
    path = _source(module)
    if path is None or path.name != "__init__.py":
        return False
    public: set[str] = set()
    passed: set[str] = set()
    for node in _tree(module).body:
        if isinstance(node, ast.ImportFrom):
            base = _base(node, module)
            if base.split(".")[0] == module.split(".")[0] and base not in _HELPERS:
                passed.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            public.update(ast.literal_eval(node.value))
        elif not _is_harmless(node):
            return False
    return passed <= public


def _is_harmless(node: ast.stmt) -> bool:
    """Return whether a statement neither computes nor registers anything.

    These are docstrings, constants, imports for type checkers, and hooks that import names on first use.
    """
    if isinstance(node, ast.If):
        return ast.unparse(node.test) in ("TYPE_CHECKING", "_TYPE_CHECKING")
    if isinstance(node, ast.FunctionDef):
        return node.name in ("__getattr__", "__dir__")
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr):
        return node.value is None or _is_constant(node.value) or _is_helper_call(node.value)
    return False


def _is_constant(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def _is_helper_call(node: ast.expr) -> bool:
    helpers = ("lazy_names", "moved_names")
    return isinstance(node, ast.Call) and ast.unparse(node.func) in helpers


def _base(node: ast.ImportFrom, module: str) -> str:
    path = _source(module)
    package = module if path and path.name == "__init__.py" else module.rpartition(".")[0]
    return resolve_name("." * node.level + (node.module or ""), package)


@cache
def _tree(module: str) -> ast.Module:
    path = _source(module)
    return ast.parse(path.read_text(encoding="utf-8") if path else "")


@cache
def _source(module: str) -> Path | None:
    """Return the file of a module, or None for names that are not modules or not written in Python."""
    try:
        spec = find_spec(module)
    except (ImportError, AttributeError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None
