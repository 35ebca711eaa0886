"""The house stays in order: who may import whom, how large a folder gets, one name for one thing."""

from pathlib import Path

from tests import house

TESTS = Path(__file__).parent
OF_SEVERAL_FILES = {
    "adapters/files/test_old_files.py",
    "adapters/test_gpu_rows.py",
    "adapters/test_matrix.py",
    "adapters/test_ragged.py",
    "adapters/test_real_models.py",
    "adapters/test_remote_code.py",
    "attention/backends/test_conformance.py",
    "attention/features/test_conformance.py",
    "attention/test_extremes.py",
    "papers/p5_forecasting/windows/test_window_conformance.py",
    "papers/test_layout.py",
    "audit/report/test_page_browser.py",
    "audit/report/test_report.py",
    "audit/test_interrupted.py",
    "audit/test_same_everywhere.py",
    "audit/test_our_claims.py",
    "cli/test_demo.py",
    "cli/test_hostile_pages.py",
    "cli/test_option_effects.py",
    "cli/test_options_passed_on.py",
    "compression/methods/test_conformance.py",
    "forecast/models/test_conformance.py",
    "forecast/test_rooms.py",
    "serving/test_page_browser.py",
    "stages/test_rates.py",
    "stages/test_public_names.py",
    "test_displays.py",
    "test_docs.py",
    "test_house.py",
    "test_packaging.py",
    "test_prose.py",
    "test_public_names.py",
    "test_shapes.py",
    "tuning/folders/test_old_runs.py",
}
"""Conformance suites, runs of whole commands, and the like."""


def test_rooms_import_only_what_the_map_allows():
    assert set(house.room_graph()) == set(house.allowed())
    assert house.forbidden() == {}


def test_no_tool_may_import_a_paper_and_no_paper_another():
    for room, others in house.allowed().items():
        papers = {other for other in others if other.startswith(house.PAPERS)}
        assert papers <= {"papers.common"} or room == "cli"
        assert not papers or room.startswith(house.PAPERS) or room == "cli"


def test_no_rooms_import_each_other():
    assert house.cycle(house.room_graph()) == []
    assert house.cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["a", "b", "c"]


def test_no_folder_holds_more_than_25_files():
    assert {folder: count for folder, count in house.folder_sizes().items() if count > 25} == {}


def test_a_class_name_means_one_thing_in_the_whole_package():
    assert house.classes_named_twice() == {}


def test_no_function_hides_the_module_of_its_name():
    assert house.hidden_modules() == []


def test_a_test_stands_where_its_subject_does():
    """tests/a/b/test_c.py is about a/b/c.py, or is listed above as one that is about several files."""
    assert house.homeless_tests(TESTS) == OF_SEVERAL_FILES
