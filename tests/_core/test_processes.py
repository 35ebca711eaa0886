"""Processes that die, and the tasks that they were at."""

import os
import signal
from pathlib import Path

from attangent._core.processes import ATTEMPTS, in_processes


def twice(number):
    if number < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


def once(place):
    """Dies the first time it is asked."""
    if not place.exists():
        place.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return place.name


def test_a_process_that_always_dies_takes_nobody_along():
    asked = []
    found = dict(in_processes(twice, [3, -1, 5], 2, died=lambda number: asked.append(number)))
    assert found == {0: 6, 1: None, 2: 10}
    assert asked == [-1]
    assert ATTEMPTS == 3


def test_a_process_that_died_once_is_replaced(tmp_path):
    places = [tmp_path / "a", Path("/")]
    assert dict(in_processes(once, places, 2, died=lambda place: "died")) == {0: "a", 1: ""}
