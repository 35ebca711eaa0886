"""The tests of `benchmarks/suites/attention/prefix_exponents.py`."""

import pytest
import torch

from benchmarks.suites.attention import prefix_exponents


def test_exponents_of_a_power_and_of_a_bend():
    assert prefix_exponents.exponents([1, 4, 16], [1.0, 16.0, 256.0]) == pytest.approx((2.0, 2.0))
    assert prefix_exponents.exponents([1, 4, 16], [1.0, 1.0, 16.0]) == pytest.approx((1.0, 2.0))


def test_the_work_is_that_of_the_algorithms():
    assert prefix_exponents.prefix_work(4, 8)().shape == (4, prefix_exponents.D)
    assert torch.isfinite(prefix_exponents.ntk_work(4)()).all()


def test_a_row_for_each_number_of_tokens(monkeypatch):
    monkeypatch.setattr(prefix_exponents, "LEAST_SECONDS", 0.0001)
    lines = prefix_exponents.table(rounds=1, lengths=(1, 4), tokens=(8, 16)).splitlines()
    assert len(lines) == 4
    assert lines[0] == "| L | m = 1 | m = 4 | exponent | largest between neighbours |"
    assert lines[2].startswith("| 8 | ")
