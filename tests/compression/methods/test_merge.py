"""Tokens merged into the nearest."""

import torch

from attangent.compression.methods.merge import MergeMethod
from tests.compression.methods.cases import problem


def test_merged_tokens_are_means_with_the_counts_of_what_they_replace():
    given = problem()
    keys, counts, values = MergeMethod().solve(given, 7)
    assert counts.sum() == 24
    torch.testing.assert_close((counts.unsqueeze(1) * keys).sum(dim=0), given.keys.sum(dim=0))
    torch.testing.assert_close((counts.unsqueeze(1) * values).sum(dim=0), given.values.sum(dim=0))
