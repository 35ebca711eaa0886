import doctest
import importlib
from pathlib import Path

import numpy as np
import pytest
import torch

PAGE = Path(__file__).resolve().parents[2] / "docs" / "forecast.md"
MODULES = ["forecast", "forecast.linear", "forecast.baselines", "forecast.diagnosis"]


def test_the_page_runs():
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert tried > 8
    assert failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    module = importlib.import_module(f"attangent.{name}")
    failed, tried = doctest.testmod(module, extraglobs={"np": np, "torch": torch})
    assert tried > 0
    assert failed == 0
