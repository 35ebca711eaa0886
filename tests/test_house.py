"""The house stays in order: who may import whom, how large a folder gets, one name for one thing."""

from pathlib import Path

from tests import house

TESTS = Path(__file__).parent
OF_SEVERAL_FILES = {
    "adapters/files/test_old_files.py",
    "adapters/test_matrix.py",
    "adapters/test_ragged.py",
    "adapters/test_real_models.py",
    "attention/features/test_conformance.py",
    "attention/test_extremes.py",
    "papers/test_layout.py",
    "audit/report/test_page_browser.py",
    "audit/running/test_interrupted.py",
    "audit/running/test_same_everywhere.py",
    "forecast/models/test_conformance.py",
    "forecast/test_rooms.py",
    "stages/detector/test_rates.py",
    "stages/test_public_names.py",
    "test_displays.py",
    "test_docs.py",
    "test_house.py",
    "test_packaging.py",
    "test_public_names.py",
    "tuning/folders/test_old_runs.py",
}
"""Conformance suites, runs of whole commands, and the like."""


def test_rooms_import_only_what_the_map_allows():
    graph = house.room_graph()
    assert set(graph) == set(house.ALLOWED)
    assert {
        room: others - house.ALLOWED[room] for room, others in graph.items() if others - house.ALLOWED[room]
    } == {}


def test_no_rooms_import_each_other():
    assert house.cycle(house.room_graph()) == []
    assert house.cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["a", "b", "c"]


def test_no_folder_holds_more_than_25_files():
    assert {folder: count for folder, count in house.folder_sizes().items() if count > 25} == {}


def test_no_class_name_stands_twice_in_a_room():
    assert house.classes_named_twice() == {}


def test_no_function_hides_the_module_of_its_name():
    assert house.hidden_modules() == []


def test_a_test_stands_where_its_subject_does():
    """tests/a/b/test_c.py speaks of a/b/c.py, or is named below as one that speaks of several files."""
    homeless = [path for path in sorted(TESTS.rglob("test_*.py")) if not _has_subject(path)]
    assert {str(path.relative_to(TESTS)) for path in homeless} == OF_SEVERAL_FILES


def _has_subject(test: Path) -> bool:
    place = test.relative_to(TESTS).parent
    if place.parts[:1] in (("benchmarks",), ("docs",), ("chaos",), ("examples",)):
        return True
    name = test.stem.removeprefix("test_")
    names = (f"{name}.py", f"_{name}.py", f"{name}/__init__.py", f"__{name}__.py")
    return any((house.SOURCE / place / candidate).exists() for candidate in names)
