"""The page on attention and the examples in docstrings run as they stand."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest
import torch

import attangent.attention

PAGE = Path(__file__).parents[2] / "docs" / "attention.md"


MODULES = [m.name for m in pkgutil.walk_packages(attangent.attention.__path__, "attangent.attention.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module, extraglobs={"torch": torch}).failed == 0


def test_every_block_of_the_page_runs(capsys):
    torch.manual_seed(0)
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 4
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert "Taylor(dim=4, size=70, order=4)" in capsys.readouterr().out
    assert names["approximate"].shape == (1, 8, 2048, 64)
