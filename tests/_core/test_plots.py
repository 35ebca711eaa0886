"""One style for all pictures; they are written whole, by the ending of their name."""

import matplotlib
import pytest

from attangent import AttangentError
from attangent._core.plots import STYLE, bars, finished, in_style, one_panel, panels, styled


def test_one_panel_beside_the_other_and_the_last_ones_empty(tmp_path):
    figure, axes = panels(4, across=3)
    assert len(axes) == 4
    assert len(figure.axes) == 6
    assert finished(figure, tmp_path / "four.svg") is figure
    assert "<svg" in (tmp_path / "four.svg").read_text()


def test_the_style_is_ours_whatever_the_user_has_set_and_theirs_comes_back(monkeypatch):
    monkeypatch.setitem(matplotlib.rcParams, "axes.spines.top", True)
    monkeypatch.setitem(matplotlib.rcParams, "lines.linewidth", 9.0)
    _, axes = in_style(one_panel)()
    assert not axes.spines["top"].get_visible()
    with styled():
        assert matplotlib.rcParams["lines.linewidth"] == 1.6
    assert matplotlib.rcParams["lines.linewidth"] == 9.0
    assert STYLE.is_file()


def test_a_notebook_shows_a_figure_without_pyplot():
    figure, axes = one_panel()
    bars(axes, {"a": 1.0, "b": 2.0}, "size", best="a")
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_a_drawing_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    (tmp_path / "old.png").write_bytes(b"old")
    figure, _ = one_panel()

    def fails(*given):
        raise RuntimeError("no")

    monkeypatch.setattr(type(figure), "savefig", fails)
    with pytest.raises(RuntimeError, match="no"):
        finished(figure, tmp_path / "old.png")
    assert [path.name for path in tmp_path.iterdir()] == ["old.png"]
    assert (tmp_path / "old.png").read_bytes() == b"old"


def test_other_endings_are_refused(tmp_path):
    with pytest.raises(AttangentError, match=r"ending in \.png"):
        finished(one_panel()[0], tmp_path / "a.txt")
