"""The layout of the package as numbers: `python -m tests.house` prints which room imports which.

A room is a folder below `attangent`; private modules beside the rooms (`_files`, `_checks`, ...) serve all.
"""

import ast
import pkgutil
from collections import Counter, defaultdict
from functools import cache
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "attangent"
ALLOWED = {
    "attention": set(),
    "kernels": set(),
    "icl": set(),
    "stages": set(),
    "forecast": set(),
    "data": set(),
    "diffusion": {"kernels"},
    "adapters": {"attention"},
    "compression": {"adapters", "attention"},
    "tuning": {"adapters", "attention", "kernels"},
    "audit": {
        *("attention", "kernels", "icl", "stages", "forecast", "diffusion"),
        *("adapters", "compression", "data", "tuning"),
    },
    "cli": {"compression", "data", "tuning", "forecast", "stages", "icl", "audit", "adapters", "kernels"},
}
"""Who may import whom: the map in CONTRIBUTING.md."""


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def room_of(path: Path) -> str | None:
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else None


def imported(path: Path) -> set[str]:
    """The dotted names of this package that a file imports, at its top or inside a function."""
    package = ".".join(("attangent", *path.relative_to(SOURCE).parent.parts))
    found: set[str] = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return {name for name in found if name.startswith("attangent.")}


@cache
def room_graph() -> dict[str, set[str]]:
    """The rooms that each room imports."""
    graph: dict[str, set[str]] = {
        path.name: set() for path in SOURCE.iterdir() if (path / "__init__.py").exists()
    }
    for path in files():
        room = room_of(path)
        if room is not None:
            graph[room] |= {name.split(".")[1] for name in imported(path)} & set(graph) - {room}
    return graph


def folder_sizes() -> Counter[str]:
    """How many Python files each folder holds."""
    return Counter(str(path.parent.relative_to(SOURCE)) for path in files())


def classes_named_twice() -> dict[str, list[str]]:
    """Public classes of one name in two files of a room, by room and name."""
    homes: dict[str, list[str]] = defaultdict(list)
    for path in files():
        for node in _tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[f"{room_of(path)}: {node.name}"].append(path.name)
    return {name: found for name, found in homes.items() if len(found) > 1}


def hidden_modules() -> list[str]:
    """Modules that are not what their package has under their name: another object hides them."""
    found = []
    for module in pkgutil.walk_packages([str(SOURCE)], "attangent."):
        if module.name.endswith("__main__"):
            continue
        package, _, name = module.name.rpartition(".")
        import_module(module.name)
        shown = getattr(import_module(package), name, None)
        if getattr(shown, "__name__", None) != module.name:
            found.append(module.name)
    return found


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Rooms that import each other, however far around; none in a clean house."""
    left = {room: set(others) for room, others in graph.items()}
    while free := [room for room, others in left.items() if not others]:
        for room in free:
            del left[room]
        for others in left.values():
            others -= set(free)
    return sorted(left)


if __name__ == "__main__":
    for room, others in sorted(room_graph().items(), key=lambda item: (len(item[1]), item[0])):
        print(f"{room:12} -> {', '.join(sorted(others)) or 'nothing'}")
    print("files in the largest folders:", folder_sizes().most_common(5))
