"""The table of extreme numbers."""

import pytest

from chaos import numbers


@pytest.mark.parametrize(
    "case", [row for row in numbers.CASES if row[0] != "torch.compile"], ids=lambda row: row[0]
)
def test_every_case_is_within_its_bound(case):
    """Compilation takes ten seconds and has tests elsewhere."""
    name, reference, bound, measure = case
    assert numbers.Measured(name, reference, measure(), bound).well


def test_nan_is_not_within_a_bound():
    assert not numbers.Measured("any", "any", float("nan"), 1.0).well
