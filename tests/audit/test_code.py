import sys

import pytest

from attangent.audit import code, registry
from attangent.audit.code import code_version

FILES = {
    "__init__.py": "",
    "check.py": "from codetest import near\nfrom codetest.room import used, later\n\n"
    "def f():\n    from .far import thing\n    from codetest.full import anything\n",
    "near.py": "import numpy\nVALUE = 1\n",
    "far.py": "thing = 2\n",
    "other.py": "unused = 3\n",
    "room/__init__.py": '"""Passes names on."""\nfrom codetest.room.inner import used\n'
    "from codetest.room.beside import unused\n__all__ = ['later', 'unused', 'used']\n\n"
    "def __getattr__(name):\n    from codetest.room.lazy import later\n    return later\n",
    "room/inner.py": "used = 1\n",
    "room/lazy.py": "from codetest.room.deep import later\n",
    "room/deep.py": "later = 4\n",
    "room/beside.py": "unused = 1\n",
    "full/__init__.py": "from codetest.full import registering\nfrom codetest.full.part import anything\n"
    "__all__ = ['anything']\n",
    "full/registering.py": "# registers itself\n",
    "full/part.py": "anything = 5\n",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A small package under the root that the digest follows."""
    folder = tmp_path / "codetest"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(code, "_ROOT", "codetest")
    yield folder
    for name in [name for name in sys.modules if name.startswith("codetest")]:
        del sys.modules[name]


def version() -> str:
    for cached in (code._uses, code._source, code._tree, code._only_passes_on):
        cached.cache_clear()
    return code_version("codetest.check")


USED = [
    "check.py", "near.py", "far.py", "room/inner.py", "room/lazy.py", "room/deep.py",
    "full/__init__.py", "full/registering.py", "full/part.py",
]  # fmt: skip


@pytest.mark.parametrize("changed", USED)
def test_a_change_in_what_is_imported_changes_the_version(package, changed):
    before = version()
    (package / changed).write_text(FILES[changed] + "# more\n")
    assert version() != before


@pytest.mark.parametrize("changed", ["other.py", "room/beside.py", "room/__init__.py"])
def test_a_change_elsewhere_does_not(package, changed):
    before = version()
    (package / changed).write_text(FILES[changed] + "# more\n")
    assert version() == before


def test_a_name_that_a_package_takes_from_elsewhere_changes_the_version(package):
    before = version()
    passed_on = FILES["room/__init__.py"].replace(
        "room.inner import used", "room.beside import unused as used"
    )
    (package / "room/__init__.py").write_text(passed_on)
    assert version() != before


def test_findings_of_one_paper_do_not_depend_on_another_papers_claims():
    modules = {claim.check.__module__: claim.paper.lower() for claim in registry.all_claims().values()}
    for module, paper in modules.items():
        reached = code._reachable(module)
        others = {f"attangent.papers.p{n}_" for n in range(1, 6)} - {f"attangent.papers.{paper}_"}
        assert not [name for name in reached if name.startswith(tuple(others))], module
        assert "attangent.audit.registry" not in reached


def test_showing_a_finding_is_no_part_of_measuring_it():
    for id, claim in registry.all_claims().items():
        assert not [n for n in code._reachable(claim.module) if n.startswith("attangent.audit.report")], id


def test_a_check_of_p2_depends_on_its_network():
    reached = code._reachable("attangent.papers.p2_softmax.claims.convergence")
    assert {"attangent.kernels.network", "attangent._core.random", "attangent.audit.finding"} <= reached
    assert not any(name.startswith("attangent.audit.report.page") for name in reached)
    assert "attangent.kernels" not in reached
    assert "attangent.kernels.scalar_attention" not in reached


LAZY = (
    "from typing import TYPE_CHECKING\nfrom attangent._core.lazy import lazy_names\n"
    "if TYPE_CHECKING:\n    from codetest.room.inner import used\n    from codetest.room.lazy import later\n"
    "__all__ = ['later', 'used']\n_HOMES = {'later': 'lazy', 'used': 'inner'}\n"
    "__getattr__, __dir__ = lazy_names(__name__, _HOMES)\n"
)


def test_names_imported_on_first_use_count_as_uses_of_their_homes(package):
    (package / "room/__init__.py").write_text(LAZY)
    before = version()
    (package / "room/__init__.py").write_text(LAZY + "# more\n")
    assert version() == before
    (package / "room/inner.py").write_text("used = 2\n")
    assert version() != before


def test_a_package_that_computes_something_counts_as_a_whole(package):
    (package / "room/__init__.py").write_text(LAZY + "print(1)\n")
    before = version()
    (package / "room/__init__.py").write_text(LAZY + "print(2)\n")
    assert version() != before


@pytest.mark.parametrize("room", ["attention", "kernels", "icl", "stages", "adapters", "audit"])
def test_rooms_only_pass_names_on(room):
    code._only_passes_on.cache_clear()
    assert code._only_passes_on(f"attangent.{room}")
