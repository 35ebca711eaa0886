"""The tests of `papers/p1/trained_reader.py`."""

import pytest
import torch

from attangent.attention import PrefixState
from attangent.attention.features import Anchors
from attangent.papers.p1_prefix.claims.trained_reader import Compression, equivalents, trained_reader


@pytest.fixture(scope="module")
def problem():
    return Compression.draw(trained_reader(12, 2, 8, 60, seed=0), 128, 8, seed=0)


def test_all_tokens_as_anchors_keep_everything(problem):
    whole = PrefixState(Anchors(problem.keys), problem.values, torch.ones(2, 128))
    assert problem.ratio(whole) < 1e-6
    assert equivalents(whole) == pytest.approx(128 * 17 / 16)
    empty = PrefixState(Anchors(problem.keys), 0 * problem.values, torch.zeros(2, 128))
    assert problem.ratio(empty) == pytest.approx(1, abs=1e-6)


def test_the_trained_model_reads_its_prompt(problem):
    """Behind the prompt the held-out text is likelier than without it."""
    from attangent.compression.capture import prompt_part
    from attangent.papers.p1_prefix.fast_attention import merged

    text = problem.held_out
    call = problem.model.call(text[:, :-1])
    tokens = call.tokens()
    full = merged(tokens, prompt_part(call, problem.keys, problem.values))[0]
    losses = [
        torch.nn.functional.cross_entropy(
            problem.model.logits(text[:, :-1], attended).flatten(0, 1), text[:, 2:].flatten()
        ).item()
        for attended in (full, tokens[0])
    ]
    assert losses[0] < losses[1] - 0.1
