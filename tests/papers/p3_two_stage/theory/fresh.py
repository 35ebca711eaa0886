"""K2 on fresh prompts, where the floor holds."""

import math

from attangent.papers.p3_two_stage.theory.floor import q_losses

LENGTHS = (9, 33, 129, 1025)


HALF_LOG_2 = 0.5 * math.log(2)


FRESH = 20_000


def fresh_mean(weights, data, variant="paper", seed=99):
    """K2 on fresh prompts and its standard error, each (...,)."""
    losses = q_losses(weights, data, variant, data.sample_q(FRESH, seed=seed))
    return losses.mean(-1), losses.std(-1) / math.sqrt(FRESH)


def assert_above_the_floor(weights, data):
    mean, error = fresh_mean(weights, data)
    assert (mean >= HALF_LOG_2 - 3 * error).all()
    return mean.min().item()
