import os
import subprocess
import sys

import pytest

from attangent import AttangentError
from attangent.audit.new_claims import write_new_claims
from tests.audit.test_plugins import attangent, install


def test_a_new_package_passes_its_tests_and_is_audited(tmp_path):
    folder = write_new_claims("MyPaper", tmp_path / "mine")
    assert (folder / "pyproject.toml").read_text().count("my_paper_claims") == 2
    environment = install(tmp_path / "site", {"MyPaper": "my_paper_claims"}, folder)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    out = str(tmp_path / "run")
    assert "1 holds" in attangent(environment, "audit", "--paper", "MyPaper", "--out", out).stdout


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mypaper", "expected a capital followed by"),
        ("My Paper", "expected a capital followed by"),
        ("P1", "already"),
    ],
)
def test_names_that_cannot_be_taken(tmp_path, name, message):
    with pytest.raises(AttangentError, match=message):
        write_new_claims(name, tmp_path / "new")
    assert os.listdir(tmp_path) == []


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(AttangentError, match="is not empty; pass another folder"):
        write_new_claims("MyPaper", tmp_path)
    assert os.listdir(tmp_path) == ["mine.txt"]
