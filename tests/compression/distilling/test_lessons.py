"""Turns in shared rows: what counts, and that a turn is read as if it stood alone."""

import pytest
import torch

from attangent import AttangentError
from attangent.compression.capture import run, whole_prompt
from attangent.compression.compressor import Compressor
from attangent.compression.distilling.lessons import Lessons
from attangent.compression.text import Turn
from tests.compression.cases import Letters, tiny_llama

TEXT = "some text that is long enough to be worth compressing, and then a little more. " * 2


def turn(asked, answer):
    return Turn(torch.arange(asked) + 1, torch.arange(answer) + 20)


def test_short_turns_share_a_row_and_only_their_answers_count():
    lessons = Lessons.of([turn(3, 4), turn(90, 6), turn(0, 5), turn(4, 0), turn(0, 1)])
    assert len(lessons) == 2  # the last two cannot be learnt
    assert lessons.counted.sum(dim=1).tolist() == [6, 4 + 4]
    ids, counted = lessons.text.ids[1], lessons.counted[1]
    following = ids[1:][counted[:-1]]
    assert following.tolist() == [20, 21, 22, 23, 21, 22, 23, 24]


def test_nothing_to_learn_is_refused():
    with pytest.raises(AttangentError, match="nothing to train on"):
        Lessons.of([turn(4, 0)])


def test_turns_in_one_row_are_read_as_each_by_itself():
    job = Compressor(tiny_llama(layers=2), Letters(), TEXT)
    turns = [turn(3, 8), turn(2, 5), turn(0, 6)]
    lessons = Lessons.of(turns)
    assert len(lessons) == 1
    (together,) = lessons.logits(job.model, [0], job.cache.length, whole_prompt(job.cache))
    alone = []
    for one in turns:
        logits = run(job.model, one.ids[None], job.cache.length, whole_prompt(job.cache)).logits[0]
        alone.append(logits[max(0, len(one.asked) - 1) : -1])
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-5, rtol=1e-4)
