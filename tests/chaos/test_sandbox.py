"""A place that nothing can leave."""

import subprocess
import sys
from pathlib import Path

import pytest

from chaos import sandbox

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not sandbox._is_possible(), reason="no mount namespaces here")
def test_only_the_scratch_folder_can_be_written(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    program = inside / "program.py"
    program.write_text(
        "import sys, pathlib\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from chaos import sandbox\n"
        f"inside, outside = map(pathlib.Path, {[str(inside), str(outside)]!r})\n"
        "sandbox.enter(inside)\n"
        "print(sandbox.is_closed(inside), sandbox.is_closed(outside), sandbox.is_closed(pathlib.Path('/')))\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert done.stdout == "False True True\n", done.stderr


def test_a_folder_that_can_be_written_is_not_closed(tmp_path):
    assert not sandbox.is_closed(tmp_path)
    assert list(tmp_path.iterdir()) == []
