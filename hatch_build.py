"""Compiles decoding.c where there is a C compiler; without one the package is the same, only slower."""

import os
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

ROOM = Path("src/attangent/adapters/decoding")
FLAGS = [
    "-O3",
    "-std=gnu11",
    "-shared",
    "-fPIC",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
]


class CompileDecoding(BuildHookInterface):
    """Puts decoding.lib beside its source, and into wheels, which are then for one platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        source, library = (Path(self.root) / ROOM / name for name in ("decoding.c", "decoding.lib"))
        library.unlink(missing_ok=True)
        complaint = compile_library(source, library)
        if complaint:
            self.app.display_warning(f"decoding.c is not compiled: {complaint}")
            return
        build_data["artifacts"].append(str(ROOM / library.name))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{next(sys_tags()).platform}"


def compile_library(source: Path, library: Path) -> str:
    """Why it could not be done, or nothing."""
    given = os.environ.get("CC")
    names = [given] if given else [sysconfig.get_config_var("CC") or "cc", "cc"]
    compiler = next((words for words in map(shlex.split, names) if shutil.which(words[0])), None)
    if os.name == "nt" or compiler is None:
        return f"no C compiler ({' or '.join(names)}) here"
    command = [*compiler, *FLAGS, str(source), "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    return (done.stderr or f"{compiler[0]} failed") if done.returncode else ""
