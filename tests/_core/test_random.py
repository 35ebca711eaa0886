import torch

from attangent._core.random import generator


def draw(seed, stream):
    return torch.randn(4, generator=generator(seed, stream))


def test_a_seed_and_a_stream_fix_the_draws():
    assert torch.equal(draw(3, "a"), draw(3, "a"))
    assert not torch.equal(draw(3, "a"), draw(4, "a"))
    assert not torch.equal(draw(3, "a"), draw(3, "b"))
