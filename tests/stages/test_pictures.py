"""Pictures are written whole, by the ending of their name."""

import pytest

from attangent import AttangentError
from attangent.stages._pictures import write_picture


def test_one_panel_beside_the_other(tmp_path):
    panels = []
    write_picture(tmp_path / "two.svg", 2, panels.extend)
    assert len(panels) == 2
    assert "<svg" in (tmp_path / "two.svg").read_text()


def test_a_drawing_that_fails_leaves_what_was_there(tmp_path):
    (tmp_path / "old.png").write_bytes(b"old")

    def fails(panels):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        write_picture(tmp_path / "old.png", 1, fails)
    assert [path.name for path in tmp_path.iterdir()] == ["old.png"]
    assert (tmp_path / "old.png").read_bytes() == b"old"


def test_other_endings_are_refused(tmp_path):
    with pytest.raises(AttangentError, match=r"ending in \.png"):
        write_picture(tmp_path / "a.txt", 1, print)
