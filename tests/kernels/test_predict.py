import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.linalg import aslinearoperator

from attangent import AttangentError, predict_training
from attangent.kernels import log_gap, vectorise


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def some_kernel(rows=6, rank=6, seed=0):
    J = torch.randn(rows, rank, generator=rng(seed), dtype=torch.float64)
    return J @ J.T / rank


def residual(rows=6, seed=1):
    return torch.randn(rows, generator=rng(seed), dtype=torch.float64)


def stepped(K, r, rate, steps):
    """The residual after so many steps, one at a time, and the sum of the residuals on the way."""
    total = torch.zeros_like(r)
    for _ in range(steps):
        total = total + r
        r = r - rate * K @ r
    return r, total


@given(
    rows=st.integers(1, 7),
    rank=st.integers(1, 7),
    part=st.sampled_from([0.1, 1.0, 1.9]),
    width=st.integers(1, 9),
)
def test_loss_and_residual_are_those_of_stepping(rows, rank, part, width):
    K, r = some_kernel(rows, rank), residual(rows)
    rate = part / (width * torch.linalg.eigvalsh(K)[-1].item())
    prediction = predict_training(K, r, rate, width=width)
    for steps in (0, 1, 7, 40):
        expected, _ = stepped(K, r, rate * width, steps)
        torch.testing.assert_close(prediction.residual(steps), expected, rtol=1e-9, atol=1e-12)
        assert prediction.loss(steps).item() == pytest.approx(0.5 * expected.square().sum().item(), rel=1e-9)
    assert prediction.loss([0, 1, 7]).shape == (3,)
    assert prediction.loss(3).shape == ()


@pytest.mark.parametrize("rank", [2, 6])
def test_outputs_at_new_points_are_those_of_stepping(rank):
    J, J_new = (torch.randn(n, rank, generator=rng(n), dtype=torch.float64) for n in (6, 4))
    K, K_new, r = J @ J.T, J_new @ J.T, residual()
    first = torch.randn(2, 2, generator=rng(3), dtype=torch.float64)
    prediction = predict_training(K, r.reshape(2, 3).T, 0.01)
    for steps in (0, 1, 50):
        _, total = stepped(K, r, 0.01, steps)
        expected = first - (0.01 * K_new @ total).reshape(2, 2).T
        for kernel in (K_new, aslinearoperator(K_new.numpy())):
            answers = prediction.outputs(kernel, steps, first)
            torch.testing.assert_close(answers, expected, rtol=1e-9, atol=1e-10)


def test_an_operator_predicts_what_the_matrix_does():
    K, r = some_kernel(40, 60), residual(40)
    rate = 1.0 / torch.linalg.eigvalsh(K)[-1].item()
    dense = predict_training(K, r, rate)
    free = predict_training(aslinearoperator(K.numpy()), r, rate)
    steps = [0, 1, 10, 1000]
    torch.testing.assert_close(free.loss(steps), dense.loss(steps), rtol=1e-8, atol=1e-14)
    torch.testing.assert_close(free.residual(30), dense.residual(30), rtol=1e-8, atol=1e-12)
    assert free.steps_to(1e-3) == dense.steps_to(1e-3)
    assert free.largest_stable_rate == pytest.approx(dense.largest_stable_rate)


def test_few_products_are_exact_for_few_steps():
    K, r = some_kernel(40, 60), residual(40)
    rate = 1.0 / torch.linalg.eigvalsh(K)[-1].item()
    dense, free = (
        predict_training(K, r, rate),
        predict_training(aslinearoperator(K.numpy()), r, rate, krylov=5),
    )
    assert len(free.eigenvalues) == 5
    torch.testing.assert_close(free.loss(range(5)), dense.loss(range(5)), rtol=1e-11, atol=0)
    torch.testing.assert_close(free.residual(4), dense.residual(4), rtol=1e-10, atol=1e-12)
    assert abs(free.loss(200).item() / dense.loss(200).item() - 1) > 1e-3  # and the limit is real


def test_the_steps_to_a_loss_are_the_first():
    K, r = some_kernel(), residual()
    prediction = predict_training(K, r, 0.5 / torch.linalg.eigvalsh(K)[-1].item())
    target = 1e-3 * prediction.loss(0).item()
    steps = prediction.steps_to(target)
    assert prediction.loss(steps) <= target < prediction.loss(steps - 1)
    assert prediction.steps_to(2 * prediction.loss(0).item()) == 0


def test_some_losses_are_never_reached():
    singular, r = some_kernel(rank=3), residual()
    assert predict_training(singular, r, 1e-3).steps_to(1e-9) is None
    too_fast = 2.1 / torch.linalg.eigvalsh(some_kernel())[-1].item()
    assert predict_training(some_kernel(), r, too_fast).steps_to(1e-9) is None


def test_the_largest_stable_rate_is_where_the_loss_stops_falling():
    K, r = some_kernel(), residual()
    limit = predict_training(K, r, 1e-3, width=5).largest_stable_rate
    assert predict_training(K, r, 0.999 * limit, width=5).loss(20_000) < 1e-3
    assert predict_training(K, r, 1.001 * limit, width=5).loss(20_000) > 1e3


def test_vectors_stand_in_the_order_of_the_kernels():
    assert torch.equal(vectorise(torch.tensor([[1, 2], [3, 4], [5, 6]])), torch.tensor([1, 3, 5, 2, 4, 6]))


def test_log_gap_is_the_largest():
    assert log_gap(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0])) == pytest.approx(math.log(2))
    assert log_gap(torch.tensor([0.0]), torch.tensor([0.0])) == math.inf
    with pytest.raises(AttangentError, match="expected equal shapes"):
        log_gap(torch.ones(2), torch.ones(3))


K3, R3 = torch.eye(3).double(), torch.ones(3).double()


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"kernel": torch.ones(2, 3)}, "expected a square matrix"),
        ({"kernel": torch.ones(3)}, "expected a square matrix"),
        ({"kernel": "H"}, "kernel is str"),
        ({"kernel": K3 * math.nan}, "kernel has NaN"),
        ({"kernel": -K3}, "positive semi-definite"),
        ({"kernel": 0 * K3}, "positive semi-definite"),
        ({"kernel": aslinearoperator(np.zeros((3, 3)))}, "training would not move it"),
        ({"kernel": aslinearoperator(np.ones((3, 2)))}, "expected a square matrix"),
        ({"kernel": aslinearoperator(np.eye(3)), "residual": 0 * R3}, "residual is zero"),
        ({"residual": torch.ones(4)}, "residual has 4 entries but the kernel has 3 rows"),
        ({"residual": R3 * math.inf}, "residual has NaN"),
        ({"rate": 0}, "rate is 0"),
        ({"width": -1}, "width is -1"),
        ({"krylov": 0}, "krylov is 0"),
    ],
)
def test_bad_requests_are_refused(request_, message):
    with pytest.raises(AttangentError, match=message):
        predict_training(**({"kernel": K3, "residual": R3, "rate": 0.1} | request_))


def test_bad_questions_are_refused():
    prediction = predict_training(K3, R3, 0.1)
    for ask, message in (
        (lambda: prediction.loss(-1), "negative"),
        (lambda: prediction.outputs(K3, -1), "step is -1"),
        (lambda: prediction.outputs(torch.ones(2, 4), 1), "test_kernel has shape"),
        (lambda: prediction.outputs(K3, 1, torch.ones(2, 1)), "initial has shape"),
        (lambda: prediction.steps_to(0), "loss is 0"),
    ):
        with pytest.raises(AttangentError, match=message):
            ask()
