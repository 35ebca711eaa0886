"""Rows left out in closed form against fits that really leave them out."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attangent.tuning.planning import leave_one_out
from attangent.tuning.planning.leave_one_out import best_fit


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3))
def test_the_error_is_that_of_fits_without_each_row(seed, outputs):
    draw = torch.Generator().manual_seed(seed)
    count = 6
    features = torch.randn(count * outputs, 30, generator=draw, dtype=torch.float64)
    kernel = features @ features.T
    wanted = torch.randn(count, outputs, generator=draw, dtype=torch.float64)
    fits = leave_one_out._fits(kernel, wanted, 0.0)
    for fit in fits[::3]:
        missed = []
        for row in range(count):
            kept = [i for i in range(count * outputs) if i // outputs != row]
            out = [i for i in range(count * outputs) if i // outputs == row]
            inside = kernel[kept][:, kept] + fit.ridge * torch.eye(len(kept), dtype=torch.float64)
            said = kernel[out][:, kept] @ torch.linalg.solve(inside, wanted.flatten()[kept])
            missed.append(wanted[row] - said)
        assert fit.error == pytest.approx(float(torch.stack(missed).square().mean()), rel=1e-6)


def test_the_kernel_that_knows_the_answer_is_taken():
    draw = torch.Generator().manual_seed(0)
    useful = torch.randn(40, 3, generator=draw, dtype=torch.float64)
    useless = torch.randn(40, 60, generator=draw, dtype=torch.float64)
    wanted = useful[:, :1].sign()
    good, bad = useful @ useful.T / 3, useless @ useless.T / 60
    assert best_fit(good, bad, wanted).share == 0
    fit = best_fit(1e-6 * bad, good, wanted)
    assert fit.share > 0
    assert ((fit.predicted(1e-6 * bad, good) * wanted) > 0).float().mean() > 0.9
