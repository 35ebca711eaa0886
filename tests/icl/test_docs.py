"""The examples in the docstrings and in the room's page run as they stand."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "icl.md"


@pytest.mark.parametrize("module", ["ridge", "attention", "compare"])
def test_examples_in_docstrings(module):
    failed, tried = doctest.testmod(import_module(f"attangent.icl.{module}"))
    assert tried
    assert not failed


def test_examples_on_the_page():
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert tried > 20
    assert not failed
