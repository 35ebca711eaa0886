"""The version of the code behind a check: a digest of its module and of what that uses from its package."""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec, resolve_name
from pathlib import Path

_ROOT = "attangent"
_UNUSED = ("attangent.audit.registry",)
"""How a claim is registered does not change what it measures."""
_GUARDED = ("guard(globals())", "guard_arrays(globals())")
_GATE = "attangent._core.gate"
"""Refuses arguments of the wrong kind; what it lets through is what was given."""


def code_version(module: str) -> str:
    """A digest of `module` and of every module it uses from attangent and its own package, however deep.

    A finding is computed anew when this changes, and only then. A name that a package merely passes on counts
    as a use of the module that defines it, so that an edit of one room leaves the findings of the others as
    they are.
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
        if name not in seen and name not in _UNUSED:
            seen.add(name)
            waiting.extend(_uses(name))
    return seen


@cache
def _uses(module: str) -> frozenset[str]:
    """The modules of attangent and of its own package that `module` imports, at its top or in a function."""
    roots = (_ROOT, module.split(".")[0])
    found: set[str] = set()
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, module)
            if base.split(".")[0] in roots:
                found.update(used for alias in node.names for used in _origin(base, alias.name))
    return frozenset(name for name in found if name.split(".")[0] in roots and _source(name))


def _origin(module: str, name: str) -> set[str]:
    """The modules behind `from module import name`."""
    if _source(f"{module}.{name}"):
        return {f"{module}.{name}"}
    if not _only_passes_on(module):
        return {module}
    return {used for base, passed in _passed_on(module, name) for used in _origin(base, passed)} or {module}


def _passed_on(module: str, name: str) -> Iterator[tuple[str, str]]:
    """Where a package takes `name` from, at its top or when it is first asked for."""
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    yield _base(node, module), alias.name


@cache
def _only_passes_on(module: str) -> bool:
    """Whether a module is a package that consists of re-exports: nothing in it runs but imports.

    An import for its effect (`import a.b`, a name not in __all__) may fill a registry: such a package counts
    as a whole.
    """
    path = _source(module)
    if path is None or path.name != "__init__.py":
        return False
    public: set[str] = set()
    passed: set[str] = set()
    for node in _tree(module).body:
        if isinstance(node, ast.ImportFrom) and node.module != _GATE:
            passed.update(alias.asname or alias.name for alias in node.names if _is_followed(node, module))
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            public.update(ast.literal_eval(node.value))
        elif not _is_harmless(node):
            return False
    return passed <= public


def _is_followed(node: ast.ImportFrom, module: str) -> bool:
    return _base(node, module).split(".")[0] == module.split(".")[0]


def _is_harmless(node: ast.stmt) -> bool:
    """A docstring, what only type checkers read, the gate before the names, or the hook for names that are
    imported when asked for."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    if isinstance(node, ast.ImportFrom) or ast.unparse(node) in _GUARDED:
        return True
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_docstring or (isinstance(node, ast.FunctionDef) and node.name in ("__getattr__", "__dir__"))


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
    """The file of a module; None for names that are not modules, or not written in Python."""
    try:
        spec = find_spec(module)
    except (ImportError, AttributeError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None
