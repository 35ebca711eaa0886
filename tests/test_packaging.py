"""The wheel and the source archive hold what they must, and little else."""

import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from attangent import __version__

ROOT = Path(__file__).parents[1]
CPU = "src/attangent/attention/backends/cpu"
NEEDED = {
    "attangent/py.typed",
    "attangent/_core/attangent.mplstyle",
    "attangent/adapters/files/card.md",
    "attangent/audit/report/templates/report.html",
    "attangent/audit/report/templates/report.css",
    "attangent/audit/report/templates/report.js",
    "attangent/data/catalogue.toml",
    "attangent/data/samples/README.md",
    "attangent/data/samples/weather.csv.gz",
    "attangent/data/samples/employment.csv.gz",
    "attangent/attention/backends/cpu/decoding.c",
    "attangent/attention/backends/cpu/rows.c",
    "attangent/attention/backends/cpu/prefix.h",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The project copied and packed without a C compiler."""
    tree = tmp_path_factory.mktemp("project") / "tree"
    ignored = shutil.ignore_patterns("__pycache__", "*.lib")
    shutil.copytree(ROOT / "src", tree / "src", ignore=ignored)
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, tree / name)
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(tree / "dist")]
    done = subprocess.run(
        command, cwd=tree, env={**os.environ, "CC": "nonesuch"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return tree / "dist", done.stderr


def test_a_wheel_without_a_compiler_is_pure_whole_and_small(built):
    folder, said = built
    (wheel,) = folder.glob("*.whl")
    assert wheel.name == f"attangent-{__version__}-py3-none-any.whl"
    assert "is not compiled: no C compiler" in said
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        metadata = packed.read(f"attangent-{__version__}.dist-info/METADATA").decode()
    assert names >= NEEDED
    assert not [name for name in names if name.endswith((".lib", ".pyc")) or name.startswith("tests")]
    assert wheel.stat().st_size < 2_000_000
    plain = [
        line for line in metadata.splitlines() if line.startswith("Requires-Dist") and "extra ==" not in line
    ]
    assert not [line for line in plain if "transformers" in line or "peft" in line or "accelerate" in line]


def test_the_source_archive_can_be_built_from(built):
    folder, _ = built
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        names = {name.split("/", 1)[1] for name in packed.getnames() if "/" in name}
    assert {"pyproject.toml", "hatch_build.py", "README.md", "LICENSE"} <= names
    assert {f"src/{name}" for name in NEEDED} <= names


ELF = {"x86_64": 62, "aarch64": 183}


@pytest.mark.parametrize("machine", sorted(ELF.keys() - {platform.machine()}))
def test_a_wheel_for_another_processor_holds_its_code(machine, tmp_path):
    compiler = f"{machine}-linux-gnu-gcc"
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    shutil.copytree(ROOT / "src/attangent/attention/backends/cpu", tmp_path / CPU, dirs_exist_ok=True)
    script = (
        "import runpy; from pathlib import Path; build = runpy.run_path({!r}, run_name='build')\n"
        "for name, pieces in build['libraries'](Path('.')).items():\n"
        "    assert not build['compile_library'](pieces, Path(name))\n"
    )
    environment = {**os.environ, "CC": compiler, "ATTANGENT_PLATFORM": f"manylinux_2_28_{machine}"}
    command = [sys.executable, "-c", script.format(str(ROOT / "hatch_build.py"))]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    for name in ("attention.lib", "decoding.lib"):
        code = (tmp_path / CPU / name).read_bytes()
        assert code[:4] == b"\x7fELF"
        assert int.from_bytes(code[18:20], "little") == ELF[machine]
        needed = [tuple(map(int, version.split(b"."))) for version in re.findall(rb"GLIBC_([\d.]+)", code)]
        assert max(needed) <= (2, 28)  # what the wheel's name promises


def test_one_version_everywhere():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {__version__}\n" in citation
    assert f"\n## {__version__}" in (ROOT / "CHANGELOG.md").read_text()
    content = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert content["project"]["dynamic"] == ["version"]


def test_the_lock_file_satisfies_what_is_required():
    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    pins = dict(line.split("==") for line in (ROOT / "requirements-lock.txt").read_text().split())
    locked = {name.lower().replace("_", "-"): version for name, version in pins.items()}
    lines = [*project["dependencies"], *(line for extra in ("adapters", "dev") for line in extras[extra])]
    for line in lines:
        requirement = Requirement(line)
        if requirement.name != "attangent":
            assert requirement.specifier.contains(locked[requirement.name.lower()]), line
