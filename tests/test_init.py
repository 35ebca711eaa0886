import subprocess
import sys

import pytest

import attangent


def test_every_public_name_is_there():
    for name in attangent.__all__:
        assert getattr(attangent, name) is not None


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        attangent.nonsense  # noqa: B018


def test_importing_the_package_does_not_import_torch():
    code = "import sys, attangent; assert 'torch' not in sys.modules; assert 'numpy' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_completion_shows_the_public_names_and_the_rooms():
    assert {"attach", "compress", "audit", "forecast"} <= set(dir(attangent))
    assert not {"Any", "import_module", "TYPE_CHECKING"} & set(dir(attangent))


def test_rooms_can_be_reached_without_importing_them_first():
    code = "import attangent; assert attangent.data.__name__ == 'attangent.data'"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
