"""When a run stops, what it records, and the bar that shows it."""

import io
import sys

import pytest
import torch

from attangent._core.progress import Bars
from attangent._core.random import generator
from attangent.icl import Dictionary
from attangent.papers.p4_in_context.one_layer.training import (
    Recorder,
    gradient,
    mixture,
    show_gap,
    softmax_vectors,
)


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


DICTIONARY = Dictionary.random(K=7, d=5, m=4, N=3, tau=0.2)


def test_vectors_are_the_softmax_over_the_prompt_head_by_head():
    Q = torch.randn(2, 5, 5, generator=generator(0, "Q"), dtype=torch.float64)
    S = softmax_vectors(DICTIONARY, Q)
    assert S.shape == (2, 3, 7)
    for h in range(2):
        for k, token in enumerate(DICTIONARY.tokens):
            expected = torch.softmax(DICTIONARY.tokens[:3] @ Q[h] @ token, dim=0)
            torch.testing.assert_close(S[h, :, k], expected)


def test_gradients_of_a_linear_function_of_the_mixture_equal_autograd():
    rng = generator(1, "heads")
    Q = torch.randn(2, 5, 5, generator=rng, dtype=torch.float64).requires_grad_()
    w = torch.randn(2, 7, generator=rng, dtype=torch.float64).requires_grad_()
    G = torch.randn(3, 7, generator=rng, dtype=torch.float64)
    S = softmax_vectors(DICTIONARY, Q)
    expected = torch.autograd.grad((G * mixture(S, w)).sum() / 7, (Q, w))
    found = gradient(DICTIONARY, S.detach(), w.detach(), G)
    for got, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-14)
