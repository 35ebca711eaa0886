import os
import pty
import re
import subprocess
import sys

from attangent.audit.running.progress import progress_bar


def test_a_terminal_shows_the_claim_the_count_and_the_time_left(tmp_path):
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "attangent", "audit", "P2/claim-3.4", "--jobs", "1", "--out", str(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            read = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not read:
            break
        shown += read
    os.close(ours)
    assert done.wait() == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert "P2/claim-3.4 seed 0" in text
    assert re.search(r"\d of 3", text)
    assert re.search(r"-:--:--|\d:\d\d:\d\d", text)


def test_nothing_is_shown_where_nobody_watches(capfd):
    with progress_bar({"a": 1.0}) as advance:
        advance("a")
    assert capfd.readouterr() == ("", "")


def test_quiet_is_quiet_on_a_terminal_too(monkeypatch, capfd):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress_bar({"a": 1.0}, quiet=True) as advance:
        advance("a")
    assert capfd.readouterr() == ("", "")
