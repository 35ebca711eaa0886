"""The layout of the package as numbers: `python -m tests.house` prints which room imports which.

A room is a folder below `attangent`; every paper below `papers` counts as a room, such as `papers.p1_prefix`.
"""

import ast
import pkgutil
from collections import Counter, defaultdict
from functools import cache
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "attangent"
PAPERS = "papers"
_TOOLS = {
    "_core": set(),
    "attention": {"_core"},
    "kernels": {"_core"},
    "icl": {"_core"},
    "stages": {"_core"},
    "forecast": {"_core"},
    "data": {"_core"},
    "adapters": {"_core", "attention"},
    "compression": {"_core", "attention", "adapters"},
    "tuning": {"_core", "attention", "kernels", "adapters"},
    "serving": {"_core", "attention", "adapters", "compression", "tuning"},
    "audit": {"_core", "data"},
}


def _papers() -> list[str]:
    return [f"{PAPERS}.{path.name}" for path in sorted((SOURCE / PAPERS).iterdir()) if path.is_dir()]


def allowed() -> dict[str, set[str]]:
    """The rooms that each room may import: the map in CONTRIBUTING.md."""
    papers = [paper for paper in _papers() if not paper.endswith("__pycache__")]
    of_papers = {paper: {*_TOOLS, f"{PAPERS}.common"} - {paper} for paper in papers}
    return {**_TOOLS, **of_papers, PAPERS: set(), "cli": {*_TOOLS, *papers}}


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _room(parts: tuple[str, ...]) -> str:
    """The room of a dotted name below the package; papers are rooms of their own."""
    return ".".join(parts[:2]) if parts[0] == PAPERS and len(parts) > 1 else parts[0]


def room_of(path: Path) -> str | None:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    if len(parts) == 1:
        return None
    return _room(parts[:-1] if parts[-1] == "__init__" or len(parts) == 2 else parts)


def imported(path: Path) -> set[str]:
    """The dotted names of this package that a file imports, at its top or inside a function."""
    package = ".".join(("attangent", *path.relative_to(SOURCE).parent.parts))
    names: set[str] = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            names |= {f"{base}.{alias.name}" for alias in node.names}
    return {name for name in names if name.startswith("attangent.")}


@cache
def room_graph() -> dict[str, set[str]]:
    """The rooms that each room imports; names in strings, such as those of `moved_names`, do not count."""
    graph: dict[str, set[str]] = {room: set() for path in files() if (room := room_of(path)) is not None}
    for path in files():
        room = room_of(path)
        if room is not None:
            graph[room] |= {_room(tuple(name.split(".")[1:])) for name in imported(path)} & set(graph) - {
                room
            }
    return graph


def forbidden() -> dict[str, set[str]]:
    """Imports that the map does not allow, by room."""
    rooms = allowed()
    return {room: others - rooms[room] for room, others in room_graph().items() if others - rooms[room]}


def folder_sizes() -> Counter[str]:
    """How many Python files each folder holds."""
    return Counter(str(path.parent.relative_to(SOURCE)) for path in files())


def classes_named_twice() -> dict[str, list[str]]:
    """Public classes of one name in two files of the package."""
    homes: dict[str, list[str]] = defaultdict(list)
    for path in files():
        for node in _tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(SOURCE)))
    return {name: found for name, found in homes.items() if len(found) > 1}


def hidden_modules() -> list[str]:
    """Modules that are not what their package has under their name: another object hides them."""
    hidden = []
    for module in pkgutil.walk_packages([str(SOURCE)], "attangent."):
        if module.name.endswith("__main__"):
            continue
        package, _, name = module.name.rpartition(".")
        import_module(module.name)
        shown = getattr(import_module(package), name, None)
        if getattr(shown, "__name__", None) != module.name:
            hidden.append(module.name)
    return hidden


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Rooms that import each other, however far around; none in a clean house."""
    left = {room: set(others) for room, others in graph.items()}
    while free := [room for room, others in left.items() if not others]:
        for room in free:
            del left[room]
        for others in left.values():
            others -= set(free)
    return sorted(left)


def homeless_tests(tests: Path) -> set[str]:
    """Test files below `tests` whose name is not that of a file at the same place in the package."""
    return {
        str(path.relative_to(tests)) for path in tests.rglob("test_*.py") if not _has_subject(path, tests)
    }


def _has_subject(test: Path, tests: Path) -> bool:
    place = test.relative_to(tests).parent
    if place.parts[:1] in (("benchmarks",), ("docs",), ("chaos",), ("examples",)):
        return True
    name = test.stem.removeprefix("test_")
    names = (f"{name}.py", f"_{name}.py", f"{name}/__init__.py", f"__{name}__.py")
    return any((SOURCE / place / candidate).exists() for candidate in names)


if __name__ == "__main__":
    for room, others in sorted(room_graph().items(), key=lambda item: (len(item[1]), item[0])):
        print(f"{room:22} -> {', '.join(sorted(others)) or 'nothing'}")
    print("not allowed:", forbidden())
    print("class names used twice:", classes_named_twice())
    print("files in the largest folders:", folder_sizes().most_common(5))
