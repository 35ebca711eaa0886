"""Compile the package's C if there is a compiler; without one the package works the same, only slower."""

import os
import platform
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

FLAGS = ["-O3", "-std=gnu11", "-fPIC", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]
FLAGS += ["-Wno-psabi"]
FMA = ["-mavx2", "-mfma"]
WIDE = [*FMA, "-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq", "-mprefer-vector-width=512"]
PLATFORM = os.environ.get("ATTANGENT_PLATFORM")
"""Platform of the wheel if it is another than this machine's, such as manylinux_2_28_aarch64; CC must fit."""


class Piece(NamedTuple):
    """A source and its compiler flags; one source may be compiled several times."""

    source: Path
    flags: Sequence[str] = ()


class CompileLibraries(BuildHookInterface):
    """Put libraries next to their sources and into wheels, which are then for one platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        for name, pieces in libraries(Path(self.root)).items():
            library = Path(self.root) / name
            library.unlink(missing_ok=True)
            complaint = compile_library(pieces, library)
            if complaint:
                self.app.display_warning(f"{library.name} is not compiled: {complaint}")
                continue
            build_data["artifacts"].append(name)
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{PLATFORM or next(sys_tags()).platform}"


def libraries(root: Path) -> dict[str, list[Piece]]:
    """Return the libraries of the package, relative to `root`, and the pieces of each."""
    folder = Path("src/attangent/attention/backends/cpu")
    rows = root / folder / "rows.c"
    choose = root / folder / "choose.c"
    pieces = [Piece(rows), Piece(choose)]
    if (PLATFORM or platform.machine().lower()).endswith(("x86_64", "amd64")):
        pieces = [
            Piece(rows),
            Piece(rows, [*FMA, "-DLANES=8", "-DAT_ONCE=4", "-DKIND(name)=name##_fma"]),
            Piece(rows, [*WIDE, "-DLANES=16", "-DAT_ONCE=8", "-DKIND(name)=name##_wide"]),
            Piece(rows, [*WIDE, "-mavx512bf16", "-DLANES=16", "-DAT_ONCE=8", "-DKIND(name)=name##_bfloat"]),
            Piece(choose, ["-DKINDS=3"]),
        ]
    return {
        str(folder / "decoding.lib"): [Piece(root / folder / "decoding.c")],
        str(folder / "attention.lib"): pieces,
    }


def compile_library(pieces: Sequence[Piece], library: Path) -> str:
    """Compile and link the pieces; return the reason if that fails, else an empty string."""
    chosen = os.environ.get("CC")
    names = [chosen] if chosen else [sysconfig.get_config_var("CC") or "cc", "cc"]
    compiler = next((words for words in map(shlex.split, names) if shutil.which(words[0])), None)
    if os.name == "nt" or compiler is None:
        return f"no C compiler ({' or '.join(names)}) here"
    with tempfile.TemporaryDirectory() as folder:
        objects = [str(Path(folder) / f"{i}.o") for i in range(len(pieces))]
        commands = [
            [*compiler, *FLAGS, *piece.flags, "-c", str(piece.source), "-o", target]
            for piece, target in zip(pieces, objects, strict=True)
        ]
        commands.append([*compiler, "-shared", *objects, "-o", str(library), "-lm"])
        for command in commands:
            process = subprocess.run(command, capture_output=True, text=True)
            if process.returncode:
                return process.stderr or f"{compiler[0]} failed"
    return ""
