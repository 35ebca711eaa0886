"""Packages of claims that others write: listed, run, stored and shown like ours; unusable ones are named."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from attangent import AttangentError
from attangent.audit import load, plugins, registry
from attangent.audit.plugins import write_new_claims
from attangent.audit.report.page import render
from attangent.cli.commands import app

EXAMPLE = Path(__file__).parents[2] / "examples" / "claims"


def install(folder: Path, points: dict[str, str], *paths: Path) -> dict[str, str]:
    """What `pip install` leaves behind, and an environment that finds it."""
    made = folder / "somebodys-0.1.dist-info"
    made.mkdir(parents=True)
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: somebodys\nVersion: 0.1\n")
    lines = "".join(f"{name} = {package}\n" for name, package in points.items())
    (made / "entry_points.txt").write_text(f"[{plugins.GROUP}]\n{lines}")
    known = [str(path) for path in (folder, *paths)] + [os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(known)}


def attangent(environment, *arguments, code=0):
    command = [sys.executable, "-m", "attangent", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Two packages of claims: the example and a new one; its folder, and an environment that has both."""
    place = tmp_path_factory.mktemp("packages")
    folder = write_new_claims("MyPaper", place / "mine")
    points = {"Rahimi2007": "rahimi2007", "MyPaper": "my_paper_claims"}
    return folder, install(place / "site", points, EXAMPLE, folder)


@pytest.fixture
def installed(packages, monkeypatch):
    """The packages of claims in this process, and no others; nothing of them is left behind."""
    for path in packages[1]["PYTHONPATH"].split(os.pathsep):
        monkeypatch.syspath_prepend(path)
    monkeypatch.setattr(registry, "_claims", {})
    plugins.claim_packages.cache_clear()
    yield
    plugins.claim_packages.cache_clear()
    for name in [name for name in sys.modules if name.startswith(("rahimi2007", "my_paper_claims"))]:
        del sys.modules[name]


@pytest.mark.usefixtures("installed")
def test_the_example_and_a_new_package_are_run_stored_and_shown(packages, tmp_path):
    assert (packages[0] / "pyproject.toml").read_text().count("my_paper_claims") == 2
    out = tmp_path / "run"
    ids = ("Rahimi2007/claim-1", "Rahimi2007/equation-2", "MyPaper/lemma-1")
    done = CliRunner().invoke(app, ["audit", *ids, "--jobs", "2", "--out", str(out)])
    assert done.exit_code == 0, done.output
    run = load(out)
    assert {result.claim: result.verdict.value for result in run.results()} == dict.fromkeys(ids, "holds")
    assert 'id="Rahimi2007/claim-1"' in render(run)
    assert "Random Features for Large-Scale Kernel Machines" in (out / "report.html").read_text()


def test_the_tests_of_the_example_and_of_a_new_package_pass(packages, tmp_path):
    folder, environment = packages
    options = ("-q", "-p", "no:cacheprovider", "--import-mode=importlib")
    command = [sys.executable, "-m", "pytest", *options, str(EXAMPLE / "tests"), str(folder / "tests")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout


def test_the_example_is_listed_and_packages_that_cannot_be_used_are_named_and_left_out(tmp_path):
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "broken_claims.py").write_text("raise RuntimeError('no good')\n")
    (bad / "thief_claims.py").write_text(
        "from attangent.audit import claim\n"
        "@claim('P2/mine', place='p', title='t', statement='s', quick={})\n"
        "def check(settings, seed): ...\n"
    )
    points = {f"{name}": f"{name.lower()}_claims" for name in ("Broken", "Absent", "Thief", "P1", "odd-name")}
    environment = install(tmp_path / "site", {"Rahimi2007": "rahimi2007", **points}, bad, EXAMPLE)
    done = attangent(environment, "audit", "--list")
    ids = [line.split()[0] for line in done.stdout.splitlines()[1:] if line[:1].strip()]
    ours = [claim.id for claim in registry.list_claims()]
    assert set(ids) - set(ours) == {"Rahimi2007/claim-1", "Rahimi2007/equation-2"}
    assert len(ids) == len(ours) + 2
    for line in (
        "left out: Broken: broken_claims cannot be used: RuntimeError: no good",
        "left out: Absent: absent_claims cannot be used: ModuleNotFoundError",
        "left out: Thief: thief_claims cannot be used: AttangentError: its claim ids must start with Thief/",
        "left out: P1: attangent already has a paper of this name",
        "left out: odd-name: the name must start with a capital",
    ):
        assert line in done.stderr


def test_every_paper_of_ours_is_cited():
    for name in ("P1", "P2", "P3", "P4", "P5"):
        paper = plugins.cited(name)
        assert paper is not None
        assert paper.title
        assert paper.link.startswith("https://")
        assert paper.subject
    assert plugins.cited("Nobody") is None


def test_an_unknown_paper_is_refused():
    with pytest.raises(AttangentError, match="unknown paper 'Nobody'"):
        registry.select([], "Nobody")


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
