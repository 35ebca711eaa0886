import sys

import pytest

from attangent.audit.running import code
from attangent.audit.running.code import code_version

FILES = {
    "__init__.py": "",
    "check.py": "from codetest import near\n\ndef f():\n    from .far import thing\n",
    "near.py": "import numpy\nVALUE = 1\n",
    "far.py": "thing = 2\n",
    "other.py": "unused = 3\n",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A small package under the root that the digest follows."""
    folder = tmp_path / "codetest"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(code, "_ROOT", "codetest")
    yield folder
    for name in [name for name in sys.modules if name.startswith("codetest")]:
        del sys.modules[name]


def version() -> str:
    code._imports.cache_clear()
    code._source.cache_clear()
    return code_version("codetest.check")


@pytest.mark.parametrize("changed", ["check.py", "near.py", "far.py"])
def test_a_change_in_what_is_imported_changes_the_version(package, changed):
    before = version()
    (package / changed).write_text(FILES[changed] + "# more\n")
    assert version() != before


def test_a_change_elsewhere_does_not(package):
    before = version()
    (package / "other.py").write_text("unused = 4\n")
    assert version() == before


def test_a_check_of_p2_depends_on_its_network():
    reached = code._reachable("attangent.audit.papers.p2.convergence")
    assert {"attangent.kernels.softmax", "attangent._random", "attangent.audit.finding"} <= reached
    assert not any(name.startswith("attangent.audit.report.page") for name in reached)
