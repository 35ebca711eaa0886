"""Tokens are drawn by temperature and top_p, from a stream per answer."""

import math

import pytest
import torch

from attangent.serving.sampling import Sampler, chance_of

LOGITS = torch.tensor([0.3, 2.0, -1.0, 1.2, -5.0])


def reference(temperature, top_p):
    """The chances of each token by the definition: the most likely ones until they have top_p."""
    chances = [math.exp(value / temperature) for value in LOGITS.tolist()]
    total, allowed = sum(chances), {}
    for token in sorted(range(len(chances)), key=lambda token: -chances[token]):
        if sum(allowed.values()) < top_p * total:
            allowed[token] = chances[token]
    return [allowed.get(token, 0) / sum(allowed.values()) for token in range(len(chances))]


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.5, 1.0), (2.0, 0.8), (1.0, 0.01)])
def test_draws_follow_the_definition(temperature, top_p):
    sampler = Sampler(temperature, top_p, seed=1)
    draws = 4000
    counts = torch.bincount(torch.tensor([sampler.next(LOGITS) for _ in range(draws)]), minlength=5)
    for count, chance in zip(counts.tolist(), reference(temperature, top_p), strict=True):
        assert abs(count - draws * chance) <= 4 * math.sqrt(draws * chance * (1 - chance))


def test_temperature_0_takes_the_most_likely():
    assert Sampler(0, 1, 0).next(LOGITS) == 1


def test_answers_to_one_request_differ_and_a_seed_fixes_each():
    def drawn(seed, choice):
        sampler = Sampler(1.0, 1.0, seed, choice)
        return [sampler.next(LOGITS) for _ in range(30)]

    assert drawn(5, 0) == drawn(5, 0)
    assert drawn(5, 0) != drawn(5, 1)
    assert drawn(5, 0) != drawn(6, 0)


def test_log_probabilities_are_those_of_the_softmax():
    chance = chance_of(LOGITS, 3, 2)
    assert chance.logprob == pytest.approx(math.log(LOGITS.softmax(0)[3]))
    assert [token for token, _ in chance.top] == [1, 3]
    assert chance.top[1][1] == pytest.approx(chance.logprob)
