import numpy as np
import pytest
import torch

from attangent import AttangentError
from attangent.kernels.checks import as_points, as_targets, as_tensor

LIKE = torch.zeros(1, dtype=torch.float32)


@pytest.mark.parametrize("value", [[[1.0, 2.0]], np.array([[1.0, 2.0]]), torch.tensor([[1.0, 2.0]]).double()])
def test_anything_array_like_becomes_points(value):
    points = as_points("X", value, 2, LIKE)
    assert points.dtype == torch.float32
    assert points.tolist() == [[1.0, 2.0]]


def test_targets_need_a_row_a_point():
    assert as_targets([[1.0]], torch.ones(1, 2), 1, LIKE).shape == (1, 1)
    with pytest.raises(AttangentError, match="Y has 1 rows but X has 2"):
        as_targets([[1.0]], torch.ones(2, 2), 1, LIKE)


@pytest.mark.parametrize("value", ["text", [[1.0], [1.0, 2.0]], object()])
def test_what_is_not_an_array_is_refused_by_name(value):
    with pytest.raises(AttangentError, match=r"X is .*, expected a tensor"):
        as_tensor("X", value)
