import io
import sys
from types import SimpleNamespace

from attangent._core.progress import Bars, track


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
    """What IPython calls the shell of a notebook's kernel."""


def test_a_notebook_gets_html_that_is_replaced(monkeypatch):
    shown = []

    class Handle:
        def update(self, content, raw):
            shown.append(content["text/html"])

    def display(content, raw, display_id):
        shown.append(content["text/html"])
        return Handle()

    kernel = SimpleNamespace(get_ipython=ZMQInteractiveShell)
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    monkeypatch.setattr("attangent._core.progress._SECONDS_BETWEEN", -1.0)
    with Bars() as bars:
        bars.show("<fit>", 1, 4, note="1 of 4")
        bars.show("<fit>", 2, 4)
    assert "&lt;fit&gt;" in shown[0]
    assert "25%" in shown[0]
    assert "50%" in shown[1]
    assert shown[-1] == ""
    with Bars(quiet=True) as bars:
        bars.show("x", 1, 2)
    assert len(shown) == 3
