"""A part of the rows kept apart, with every label in proportion."""

import torch

from attangent._core.random import generator


def held_out(targets: list[int], share: float, seed: int, stream: str) -> tuple[list[int], list[int]]:
    """Indices to train on and indices kept apart: about `share` of each label, at least one where it has two.

    >>> train, held = held_out([0] * 10 + [1] * 5, 0.2, 0, "validation")
    >>> len(held), sum(index >= 10 for index in held)
    (3, 1)
    """
    draw = generator(seed, stream)
    held: set[int] = set()
    for label in sorted(set(targets)):
        own = [index for index, target in enumerate(targets) if target == label]
        order = torch.randperm(len(own), generator=draw).tolist()
        count = min(max(round(share * len(own)), 1), len(own) - 1)
        held |= {own[place] for place in order[:count]}
    return [i for i in range(len(targets)) if i not in held], sorted(held)
