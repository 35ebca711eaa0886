"""When a run stops, what it records, and the bar that shows it."""

import io
import sys

import pytest

from attangent._core.progress import Bars
from attangent.papers.p4_in_context.one_layer.training import Recorder, show_gap


def test_a_run_stops_at_its_target():
    recorder = Recorder("gd", target=0.1)
    assert not recorder.note(0, 1.0)
    assert recorder.note(1, 0.1)
    result = recorder.result()
    assert result.stopped == "target"
    assert result.gap == pytest.approx(0.1)
    assert result.steps.tolist() == [0, 1]


@pytest.mark.parametrize("gap", [float("nan"), float("inf"), 2e6])
def test_a_run_that_blows_up_has_diverged(gap):
    recorder = Recorder("gd", target=0.0)
    recorder.note(0, 1.0)
    assert recorder.note(1, gap)
    assert recorder.result().diverged


def test_patience_counts_from_the_last_progress():
    recorder = Recorder("gd", target=0.0, patience=3)
    gaps = [1.0, 0.5, 0.4999, 0.4998, 0.4997]
    assert [recorder.note(step, gap) for step, gap in enumerate(gaps)] == [False] * 4 + [True]
    assert recorder.result().stopped == "stalled"


def test_a_run_that_uses_its_steps_says_so():
    recorder = Recorder("gd", target=0.0)
    recorder.note(0, 1.0)
    assert recorder.result().stopped == "steps"
    assert recorder.last == 1.0
    assert recorder.last_step == 0


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "quiet", "shown"),
    [(Terminal, False, True), (Terminal, True, False), (io.StringIO, False, False)],
)
def test_the_bar_is_shown_on_a_terminal_only(monkeypatch, stream, quiet, shown):
    screen = stream()
    monkeypatch.setattr(sys, "stderr", screen)
    with Bars(quiet) as bars:
        show_gap(bars, "gd", 1, 2, 0.5)
        show_gap(bars, "gd", 2, 2, 0.25)
    assert ("gap" in screen.getvalue()) == shown
