"""The compiled piece under the address and undefined-behaviour sanitizers, its own tests as the fuzzer.

These draw shapes, strides, dtypes and threads, and compare every answer with torch's.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

_SOURCE = Path("src/attangent/adapters/decoding/decoding.c")
_FLAGS = ("-std=gnu11", "-O1", "-g", "-shared", "-fPIC", "-fno-sanitize-recover=undefined")
_SANITIZERS = ("-fsanitize=address,undefined",)


class Sanitized(NamedTuple):
    """What the sanitizers said; `clean` is None where there is no compiler that has them."""

    clean: bool | None
    said: str


def drill(root: Path, scratch: Path) -> Sanitized:
    """Build a copy of the package with sanitizers and run the tests of the compiled piece on it."""
    libraries = [_library(name) for name in ("libasan.so", "libubsan.so")]
    if None in libraries:
        return Sanitized(None, "no compiler with sanitizers here")
    copy = scratch / "sanitized"
    for part in ("src", "tests"):
        shutil.copytree(root / part, copy / part, ignore=shutil.ignore_patterns("*.lib", "__pycache__"))
    shutil.copy(root / "pyproject.toml", copy)
    source = copy / _SOURCE
    subprocess.run(
        ["gcc", *_FLAGS, *_SANITIZERS, str(source), "-o", str(source.with_name("decoding.lib")), "-lm"],
        check=True,
    )
    own = {
        "LD_PRELOAD": " ".join(map(str, libraries)),
        "ASAN_OPTIONS": "detect_leaks=0,verify_asan_link_order=0",
        "PYTHONPATH": f"{copy / 'src'}:{copy}",
    }
    tests = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*tests, "tests/adapters/decoding/test_native.py"],
        cwd=copy,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
    )
    report = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    bad = any("runtime error" in line or "AddressSanitizer" in line for line in report)
    return Sanitized(done.returncode == 0 and not bad, " / ".join(report[-3:])[-400:])


def _library(name: str) -> Path | None:
    """A sanitizer's library, as the compiler knows it."""
    if not shutil.which("gcc"):
        return None
    found = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
    return Path(found).resolve() if Path(found).is_absolute() else None
