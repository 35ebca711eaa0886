import numpy as np
import pytest
import torch

from attangent import AttangentError
from attangent._core.arrays import as_double, as_matrix, check_shape, fitted


def test_lists_arrays_and_tensors_become_float64():
    for value in ([[0.1, 2]], np.array([[0.1, 2]]), torch.tensor([[0.1, 2]], dtype=torch.float64)):
        assert torch.equal(as_matrix("X", value, 2), torch.tensor([[0.1, 2.0]], dtype=torch.float64))
    assert as_double("t", 0.1).item() == 0.1


@pytest.mark.parametrize("value", [None, "text", [[1.0], [1.0, 2.0]], {"a": 1}, object()])
def test_what_holds_no_numbers_is_refused(value):
    with pytest.raises(AttangentError, match="X is"):
        as_double("X", value)


@pytest.mark.parametrize("value", [[np.nan], [np.inf], [1j]])
def test_numbers_that_are_not_finite_and_real_are_refused(value):
    with pytest.raises(AttangentError, match="complex, NaN or infinite"):
        as_double("X", value)


@pytest.mark.parametrize("value", [[1.0], [[]], [[1.0, 2.0, 3.0]]])
def test_matrices_of_another_shape_are_refused(value):
    with pytest.raises(AttangentError, match=r"expected \(rows, 2\)"):
        as_matrix("X", value, 2)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [((2, 3), (2, 3)), ((2, 3), ("rows", 3)), ((4, 2, 3), ("...", 3)), ((3,), ("...", 3)), ((), ())],
)
def test_shapes_that_fit(given, wanted):
    check_shape("x", torch.zeros(given), *wanted)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [((2, 4), (2, 3)), ((2,), ("rows", 3)), ((2, 4), ("...", 3)), ((), ("...", 3)), ((1, 2, 3), (2, 3))],
)
def test_other_shapes_are_refused_with_what_was_expected(given, wanted):
    with pytest.raises(AttangentError, match=r"x has shape .*, expected \("):
        check_shape("x", torch.zeros(given), *wanted)


def test_what_fits_takes_the_dtype_of_its_partner():
    found = fitted("x", torch.ones(2, dtype=torch.int64), torch.zeros(1, dtype=torch.float64), 2)
    assert found.dtype == torch.float64
    with pytest.raises(AttangentError, match=r"x has dtype torch\.complex64"):
        fitted("x", torch.ones(2, dtype=torch.complex64), torch.zeros(1), 2)
