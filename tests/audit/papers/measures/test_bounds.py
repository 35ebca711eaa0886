import math

import torch

from attangent.audit.papers.measures.bounds import first_above, worst_ratio

BOUNDS = torch.tensor([1.0, 2.0, 0.0])


def test_the_first_step_above_its_bound():
    assert first_above(torch.tensor([0.5, 2.5, 1.0]), BOUNDS) == 1
    assert first_above(torch.tensor([1.0, 2.0, 0.0]), BOUNDS) is None


def test_the_worst_ratio_to_a_bound():
    assert worst_ratio(torch.tensor([0.5, 1.5, 0.0]), BOUNDS) == 0.75
    assert worst_ratio(torch.tensor([0.5, 1.5, 1e-9]), BOUNDS) == math.inf
    assert worst_ratio(torch.tensor([math.nan, 1.0, 0.0]), BOUNDS) == math.inf
