"""The examples in docstrings run and print what they show, and links between pages lead somewhere."""

import doctest
import importlib
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import attangent

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SOURCE = Path(attangent.__file__).parent
MODULES = [path for path in sorted(SOURCE.rglob("*.py")) if ">>>" in path.read_text()]


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(("attangent", *parts)).removesuffix(".__init__")


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_examples_in_docstrings(path):
    module = importlib.import_module(module_name(path))
    public = {public: getattr(attangent, public) for public in attangent.__all__}
    failed, tried = doctest.testmod(
        module, extraglobs={"torch": torch, "np": np, **public, **vars(module)}, optionflags=FLAGS
    )
    assert tried > 0
    assert failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target
