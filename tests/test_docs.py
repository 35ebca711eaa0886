"""The examples in README, docs and docstrings run, and print what they say they print."""

import doctest
import importlib
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import attangent

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SOURCE = Path(attangent.__file__).parent
MODULES = [path for path in sorted(SOURCE.rglob("*.py")) if ">>>" in path.read_text()]


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def run_block(text: str, page: Path, names: dict) -> None:
    """Run an example; one that shows a session (>>>) must print what it shows."""
    if ">>>" not in text:
        exec(compile(text, page.name, "exec"), names)
        return
    example = doctest.DocTestParser().get_doctest(text, names, page.name, str(page), 0)
    failed, _ = doctest.DocTestRunner(optionflags=FLAGS).run(example, clear_globs=False)
    names.update(example.globs)
    assert failed == 0


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_examples_of_a_page_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names: dict = {"__name__": "example"}
    for block in blocks(page):
        run_block(block, page, names)


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
