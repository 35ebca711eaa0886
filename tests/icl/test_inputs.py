"""What a user hands to the room is converted or refused by name."""

import numpy as np
import pytest
import torch

from attangent import AttangentError
from attangent.icl._inputs import as_labels, as_matrix, as_tensor


@pytest.mark.parametrize("value", [[[1, 2]], np.ones((1, 2), dtype=np.float32), torch.ones(1, 2)])
def test_anything_array_like_becomes_a_matrix(value):
    assert as_matrix("x", value).dtype == torch.float64
    assert as_matrix("x", value, columns=2).shape == (1, 2)


@pytest.mark.parametrize("value", [None, "text", {"a": 1}, [[1, 2], [3]], [float("nan")], [1j], [None]])
def test_what_is_no_array_of_numbers_is_refused_by_name(value):
    with pytest.raises(AttangentError, match=r"^x "):
        as_tensor("x", value)


def test_shapes_are_named():
    with pytest.raises(AttangentError, match=r"x has shape \(2,\), expected \(rows, 3\)"):
        as_matrix("x", [1.0, 2.0], columns=3)
    with pytest.raises(AttangentError, match=r"cut longer ones with labels\[..., :2\]"):
        as_labels([1.0, 2.0, 3.0], 2)
