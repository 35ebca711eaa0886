"""Shapes in signatures are checked while the tests run."""

import pytest
import torch
from jaxtyping import TypeCheckError

from attangent.attention.prefix import by_state_head


def test_a_wrong_shape_fails():
    with pytest.raises(TypeCheckError):
        by_state_head(torch.zeros(2, 3), 1)
