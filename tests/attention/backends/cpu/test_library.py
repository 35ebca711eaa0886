"""The library that is loaded, and its build."""

import runpy
import subprocess
from pathlib import Path

import pytest

from attangent.attention.backends.cpu import library

ROOT = Path(__file__).parents[3]
BUILD = runpy.run_path(str(ROOT / "hatch_build.py"))
[PIECES] = [pieces for name, pieces in BUILD["libraries"](ROOT).items() if name.endswith("attention.lib")]
compiled = pytest.mark.skipif(library.load() is None, reason="there was no C compiler at installation")


@pytest.mark.parametrize("left", ["nothing", "text", pytest.param("older", marks=compiled)])
def test_without_a_library_of_this_version_there_is_none(left, tmp_path, monkeypatch):
    path = tmp_path / "attention.lib"
    if left == "text":
        path.write_text("no library")
    if left == "older":
        (tmp_path / "older.c").write_text("int attention_version(void) { return 0; }")
        assert not BUILD["compile_library"]([BUILD["Piece"](tmp_path / "older.c")], path)
    monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))
    assert library.load.__wrapped__() is None


@compiled
@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: f"{piece.source.name} {' '.join(piece.flags)}")
def test_the_sources_have_no_warnings(piece):
    options = ["-std=gnu11", "-Wall", "-Wextra", "-Wno-psabi", "-fsyntax-only", *piece.flags]
    done = subprocess.run(["cc", *options, piece.source], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def _with_fused_multiplication():
    """The code for vectors of 32 bytes in the place of the one for 64, which this processor may take."""
    flags = [*BUILD["FMA"], "-DLANES=8", "-DAT_ONCE=4"]
    kinds = [BUILD["Piece"](PIECES[0].source, [*flags, f"-DKIND(name)=name##_{k}"]) for k in ("fma", "wide")]
    return [PIECES[0], *kinds, PIECES[-1]]


@compiled
@pytest.mark.parametrize("kind", ["plain", "with fused multiplication"])
def test_every_kind_of_processor_gets_the_same_numbers(kind, tmp_path, monkeypatch):
    """Code that this one cannot run is not taken."""
    from attangent.attention.backends.cpu.check import is_right

    if kind == "plain":
        pieces = [BUILD["Piece"](piece.source) for piece in (PIECES[0], PIECES[-1])]
    elif len(PIECES) > 2:
        pieces = _with_fused_multiplication()
    else:
        pytest.skip("there is one kind of processor of this make")
    assert not BUILD["compile_library"](pieces, tmp_path / "attention.lib")
    monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))
    assert is_right(library.load.__wrapped__())
