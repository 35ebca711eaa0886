"""Parts of the room import downwards only: data below models below pipeline."""

import ast
from pathlib import Path

import pytest

import attangent.forecast

ROOM = Path(attangent.forecast.__file__).parent
MAY_IMPORT = {
    "data": {"data"},
    "models": {"data", "models"},
    "pipeline": {"data", "models", "pipeline"},
}


def imported_parts(path):
    """The parts of the room that a file imports, at any depth."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("attangent.forecast"):
            yield node.module.split(".")[2] if node.module.count(".") > 1 else "attangent.forecast"


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_imports_go_down(part):
    files = list((ROOM / part).rglob("*.py"))
    assert files
    for path in files:
        assert set(imported_parts(path)) <= MAY_IMPORT[part], path


def test_every_part_is_named_here():
    assert {path.name for path in ROOM.iterdir() if path.is_dir() and path.name[0] != "_"} == set(MAY_IMPORT)


def test_no_class_name_means_two_things():
    names = [
        node.name
        for path in ROOM.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    assert sorted(names) == sorted(set(names))
