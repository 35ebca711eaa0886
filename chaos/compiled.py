"""The compiled pieces under the address and undefined-behaviour sanitizers, their own tests as the fuzzer.

These draw shapes, strides, dtypes and threads, and compare every answer with torch's.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from unittest import mock

_COMPILER = "gcc -g -fsanitize=address,undefined -fno-sanitize-recover=undefined"
_CPU = "tests/attention/backends/cpu"
TESTS = {"decoding": f"{_CPU}/test_decoding.py", "attention": f"{_CPU}/test_library.py"}


class Sanitized(NamedTuple):
    """What the sanitizers said of a library; `clean` is None where there is no compiler that has them."""

    library: str
    clean: bool | None
    said: str


def run(root: Path, scratch: Path) -> list[Sanitized]:
    """Build a copy of the package with sanitizers and run the tests of every compiled piece on it."""
    runtimes = [_runtime(name) for name in ("libasan.so", "libubsan.so")]
    if None in runtimes:
        return [Sanitized("all", None, "no compiler with sanitizers here")]
    copy = scratch / "sanitized"
    for part in ("src", "tests"):
        shutil.copytree(root / part, copy / part, ignore=shutil.ignore_patterns("*.lib", "__pycache__"))
    for name in ("pyproject.toml", "hatch_build.py"):
        shutil.copy(root / name, copy)
    own = {
        "LD_PRELOAD": " ".join(map(str, runtimes)),
        "ASAN_OPTIONS": "detect_leaks=0,verify_asan_link_order=0",
        "PYTHONPATH": f"{copy / 'src'}:{copy}",
    }
    complaints = _build(root, copy)
    return [
        Sanitized(name, False, complaints[name]) if complaints[name] else _tested(name, tests, copy, own)
        for name, tests in TESTS.items()
    ]


def _build(root: Path, copy: Path) -> dict[str, str]:
    """What the compiler complained about, by library: nothing where all went well."""
    sys.path.insert(0, str(root))
    from hatch_build import compile_library, libraries

    with mock.patch.dict(os.environ, {"CC": _COMPILER}):
        return {Path(name).stem: compile_library(p, copy / name) for name, p in libraries(copy).items()}


def _tested(name: str, tests: str, copy: Path, own: dict[str, str]) -> Sanitized:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", tests],
        cwd=copy,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
    )
    report = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    bad = [line for line in report if "runtime error" in line or "AddressSanitizer" in line]
    return Sanitized(name, done.returncode == 0 and not bad, " / ".join(bad[:3] or report[-1:])[-400:])


def _runtime(name: str) -> Path | None:
    """A sanitizer's library, as the compiler knows it."""
    if not shutil.which("gcc"):
        return None
    found = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
    return Path(found).resolve() if Path(found).is_absolute() else None
