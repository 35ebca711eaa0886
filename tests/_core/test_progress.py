import io
import sys
from types import SimpleNamespace

import pytest

from attangent._core import progress
from attangent._core.progress import Bars, Stages, track


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_steps_come_one_by_one_and_nothing_is_shown_where_nobody_watches(capfd):
    assert list(track([3, 1, 2], "walking")) == [3, 1, 2]
    assert capfd.readouterr() == ("", "")


def test_quiet_is_quiet_on_a_terminal_too(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Bars(quiet=True) as bars:
        bars.show("fitting", 1, 2)
    assert terminal.getvalue() == ""


def test_a_terminal_shows_name_share_and_note(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with Bars() as bars:
        bars.show("fitting", 1, 4, note="1 of 4")
        bars.show("fitting", 2, 4, label="measuring", note="2 of 4")
    text = terminal.getvalue()
    assert "measuring" in text
    assert "50%" in text
    assert "2 of 4" in text


class ZMQInteractiveShell:
    """IPython's name for the shell of a notebook kernel."""


@pytest.mark.parametrize("installed", [True, False])
def test_a_notebook_has_bars_if_ipywidgets_are_installed(monkeypatch, installed):
    kernel = SimpleNamespace(get_ipython=ZMQInteractiveShell)
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setattr(progress, "find_spec", lambda name: name if installed else None)
    assert progress.in_notebook() is installed
    assert (Bars()._bars is not None) is installed
    assert Bars(quiet=True)._bars is None


def test_progress_is_reported_from_nothing_to_the_end():
    seen = []
    stages = Stages(lambda *one: seen.append(one))
    with stages.stage("reading", 5) as done:
        done(2)
        done(3)
    assert seen == [("reading", 0, 5), ("reading", 2, 5), ("reading", 5, 5)]


def test_seconds_of_a_stage_add_up_even_after_an_error():
    stages = Stages()
    with stages.stage("a", 1):
        pass
    first = stages.seconds["a"]
    with pytest.raises(RuntimeError), stages.stage("a", 1):
        raise RuntimeError
    assert stages.seconds["a"] > first
    assert list(stages.seconds) == ["a"]


def test_stages_of_something_else_say_so():
    stages = Stages()
    with stages.named("for peft"), stages.stage("fitting", 1):
        pass
    with stages.stage("fitting", 1):
        pass
    assert list(stages.seconds) == ["fitting for peft", "fitting"]
