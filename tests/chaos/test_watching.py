"""Processes watched from outside."""

import os
import subprocess
import sys

from chaos.watching import children, cpu_seconds, waiting_seconds


def test_time_without_a_core_is_known_of_processes_that_are_there():
    assert waiting_seconds(os.getpid()) >= 0
    assert waiting_seconds(2**22 + 1) == 0


def test_children_and_their_time():
    work = "import time, sys\nwhile time.process_time() < 0.2: pass\nprint(1, flush=True)\nsys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "start_new_session": True}
    with subprocess.Popen([sys.executable, "-c", work], **pipes) as process:
        process.stdout.readline()
        assert process.pid in children(os.getpid())
        assert 0.15 < cpu_seconds(process.pid) < 5
        process.stdin.close()
    assert process.pid not in children(os.getpid())
    assert cpu_seconds(process.pid) == 0
