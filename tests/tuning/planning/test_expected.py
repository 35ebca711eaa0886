"""Scores of runs that are far from their tangent are those of the next smaller rate that is near."""

from dataclasses import replace

import torch

from attangent.tuning.planning.expected import Expected, held_back


def expected(rate, score, departure, epochs=2.0):
    figures = torch.ones(3), torch.tensor([0.5]), torch.tensor([score])
    return Expected(rate, epochs, *figures, departure, 0.1, 0.2, 0)


def scores(runs):
    return [round(run.scores.item(), 3) for run in runs]


def test_far_runs_are_given_the_score_of_the_next_near_rate():
    runs = [
        expected(4.0, 0.2, 2.0),
        expected(1.0, 0.7, 0.1),
        expected(2.0, 0.8, 0.4),
        expected(3.0, 0.6, 0.6),
    ]
    found = held_back(runs)
    assert scores(found) == [0.8, 0.7, 0.8, 0.8]
    assert [run.score_gap for run in found] == [0.0, 0.2, 0.2, 0.0]
    assert [run.departure for run in found] == [run.departure for run in runs]


def test_lengths_are_held_apart_and_corrected_runs_are_left():
    short, far = expected(1.0, 0.9, 0.1, epochs=1.0), expected(2.0, 0.3, 2.0)
    assert scores(held_back([short, far])) == [0.9, 0.3]
    near = expected(1.0, 0.8, 0.1)
    assert scores(held_back([near, replace(far, corrections=2)])) == [0.8, 0.3]
