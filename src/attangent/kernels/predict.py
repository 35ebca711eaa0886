"""What training will do, from the kernel at initialisation alone (P2 Appendix F)."""

import math
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import torch
from scipy.sparse.linalg import LinearOperator
from torch import Tensor

from attangent._core.arrays import check_shape, fitted
from attangent._core.checks import check_positive, check_size
from attangent._core.display import brief, table_html
from attangent._core.errors import AttangentError
from attangent._core.plots import finished, in_style, one_panel
from attangent.kernels._inputs import as_tensor
from attangent.kernels.krylov import krylov_spectrum

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

Steps = int | Sequence[int] | Tensor


def vectorise(matrix: Tensor) -> Tensor:
    """(n, d_out) as a vector in the order of the kernels: entry l*n + i is output l at point i.

    >>> vectorise(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 3, 2, 4])
    """
    return matrix.T.reshape(-1)


def predict_training(
    kernel: Any, residual: Any, rate: float, *, width: float = 1.0, krylov: int = 200
) -> "Prediction":
    """The course of gradient descent on 1/2 |F - Y|^2 if the tangent kernel stayed as it is.

    `kernel` (N, N) is J J'/width: pass `width=network.width` with the networks of this room and leave it at
    1 for a plain J J'. `residual` is F(0) - Y, as (n, d_out) or as a vector in the kernel's order. One
    eigendecomposition serves every question asked of the result.

    A scipy LinearOperator (`network.kernel_operator(X)`) is never built: at most `krylov` products span the
    space in which the residual moves. The prediction is then exact up to step krylov - 1, and at a later
    step t off by about exp(-krylov^2/t) of the first loss.

    >>> prediction = predict_training(torch.diag(torch.tensor([1.0, 0.5])), torch.ones(2, 1), rate=1.0)
    >>> prediction.loss([0, 1, 2])
    tensor([1.0000, 0.1250, 0.0312], dtype=torch.float64)
    """
    check_positive("rate", rate)
    check_positive("width", width)
    check_size("krylov", krylov)
    R = as_tensor("residual", residual).double()
    r = vectorise(R) if R.ndim == 2 else R.reshape(-1)
    outputs = R.shape[1] if R.ndim == 2 else 1
    if isinstance(kernel, LinearOperator):
        _check_pair(tuple(kernel.shape), r)
        spectrum, whole = krylov_spectrum(kernel, r, krylov), False
    else:
        K = as_tensor("kernel", kernel).double()
        _check_pair(tuple(K.shape), r)
        spectrum, whole = _spectrum(K), True
    return Prediction(*spectrum, r, rate * width, width, outputs, whole)


def _check_pair(shape: tuple[int, ...], r: Tensor) -> None:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise AttangentError(f"kernel has shape {shape}, expected a square matrix (train, train)")
    if len(r) != shape[0]:
        raise AttangentError(
            f"residual has {len(r)} entries but the kernel has {shape[0]} rows: "
            "give F(0) - Y of the points the kernel was made from"
        )
    if not torch.isfinite(r).all():
        raise AttangentError("residual has NaN or infinite entries: drop those points first")


def _spectrum(K: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, round-off below zero removed, and eigenvectors of a positive semi-definite matrix."""
    if not torch.isfinite(K).all():
        raise AttangentError("kernel has NaN or infinite entries: drop those points first")
    eigenvalues, eigenvectors = torch.linalg.eigh((K + K.T) / 2)
    top = eigenvalues[-1].clamp(min=0)
    if eigenvalues[0] < -1e-5 * top or top == 0:
        raise AttangentError(
            f"kernel has eigenvalues from {eigenvalues[0]:.3g} to {eigenvalues[-1]:.3g}, "
            "expected a positive semi-definite matrix that is not zero: a Gram matrix of gradients"
        )
    kept = torch.where(eigenvalues.abs() < 1e-15 * top, 0 * eigenvalues, eigenvalues)
    return kept.clamp(min=0), eigenvectors


class Prediction:
    """Gradient descent under a constant kernel: the residual after t steps is (I - rate K)^t r(0).

    `eigenvalues` are those of the kernel as given, in rising order; where the kernel was given as an operator
    (`whole` is False) they are the Ritz values of the space that the residual can reach.
    """

    def __init__(
        self,
        eigenvalues: Tensor,
        eigenvectors: Tensor,
        residual: Tensor,
        step_rate: float,
        width: float,
        d_out: int,
        whole: bool,
    ):
        check_shape("eigenvalues", eigenvalues, "rank")
        check_shape("eigenvectors", eigenvectors, "rows", len(eigenvalues))
        residual = fitted("residual", residual, eigenvectors, len(eigenvectors))
        self.eigenvalues = eigenvalues
        self.eigenvectors = eigenvectors
        self.width = width
        self.d_out = d_out
        self.whole = whole
        self._rate = step_rate
        self._coefficients = eigenvectors.T @ residual

    def __repr__(self) -> str:
        first, stable = float(self.loss(0)), self.largest_stable_rate
        return brief(self, outputs=len(self.eigenvectors), rate=self.rate, stable_below=stable, loss=first)

    def _repr_html_(self) -> str:
        steps = [0, 1, 10, 100, 1000, 10_000]
        rows = [(f"{step:,}", loss) for step, loss in zip(steps, self.loss(steps).tolist(), strict=True)]
        note = f"rate {self.rate:.4g}; no component grows below {self.largest_stable_rate:.4g}"
        return table_html("Predicted training", ("step", "loss"), rows, [note])

    @in_style
    def plot(
        self, steps: int = 1000, path: str | PathLike[str] | None = None, *, trained: Any = None
    ) -> "Picture":
        """Draw the predicted loss over the first `steps` steps; also to a file, where one is named.

        trained: the losses of a real training from step 0 on, drawn beside it.
        """
        times = torch.linspace(0, check_size("steps", steps), 201).round().unique()
        figure, axes = one_panel()
        axes.plot(times.tolist(), self.loss(times).tolist(), label="predicted")
        if trained is not None:
            real = as_tensor("trained", trained).double().flatten()[: steps + 1]
            every = max(len(real) // 25, 1)
            axes.plot(range(0, len(real), every), real[::every].tolist(), "o", mfc="none", label="trained")
            axes.legend()
        axes.set(yscale="log", xlabel="step", ylabel="loss", title="Loss if the kernel stays as it is")
        return finished(figure, path)

    @property
    def rate(self) -> float:
        """The learning rate it was made for."""
        return self._rate / self.width

    @property
    def largest_stable_rate(self) -> float:
        """2 / (width lambda_max): below it no component grows, above it the top one does."""
        return 2.0 / (self.width * self.eigenvalues[-1].item())

    def loss(self, steps: Steps) -> Tensor:
        """1/2 |F(t) - Y|^2 at each of the steps; a single step gives a scalar tensor."""
        decayed = self._coefficients[:, None] * self._powers(steps)
        return 0.5 * decayed.square().sum(dim=0).reshape(_shape(steps))

    def residual(self, step: int) -> Tensor:
        """vec(F(t) - Y) after `step` steps, in the kernel's order."""
        return self.eigenvectors @ (self._coefficients * self._powers(step)[:, 0])

    def outputs(self, test_kernel: Any, step: int, initial: Any = 0.0) -> Tensor:
        """Predicted outputs (points, d_out) at test points after `step` steps.

        `test_kernel` (d_out points, N) pairs test with training points, scaled as the kernel was; `initial`
        holds the outputs of the untrained network there (zero after symmetric initialisation):
        F0 - K_te V [(1 - (1 - rate e)^t) / e] V' r(0). A LinearOperator will do for `test_kernel` too.
        """
        K = test_kernel if isinstance(test_kernel, LinearOperator) else as_tensor("test_kernel", test_kernel)
        trained, shape = len(self.eigenvectors), tuple(K.shape)
        if len(shape) != 2 or shape[1] != trained or shape[0] % self.d_out:
            raise AttangentError(
                f"test_kernel has shape {shape}, expected ({self.d_out} x points, {trained}): "
                "kernel(X_test, X_train)"
            )
        moved = self.eigenvectors @ (self._summed_powers(step) * self._coefficients)
        change = K.double() @ moved if isinstance(K, Tensor) else torch.as_tensor(K.matvec(moved.numpy()))
        outputs = change.reshape(self.d_out, -1).T
        return _initial_outputs(initial, outputs) - outputs

    def steps_to(self, loss: float) -> int | None:
        """The first step at which the predicted loss is at most `loss`, None if it never gets there.

        Exact where every component falls (a stable rate): the predicted loss is then monotone.
        """
        check_positive("loss", loss)
        if self.loss(0) <= loss:
            return 0
        if not self._reaches(loss):
            return None
        high = 1
        while self.loss(high) > loss:
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.loss(middle) <= loss else (middle, high)
        return high

    def effective_dimension(self, ridge: float) -> float:
        """sum_j e_j / (e_j + ridge): the number of directions that count at this ridge (or 1/(rate t))."""
        check_positive("ridge", ridge)
        if not self.whole:
            raise AttangentError("effective_dimension needs every eigenvalue: predict from the dense kernel")
        e = self.eigenvalues.clamp(min=0)
        return (e / (e + ridge)).sum().item()

    def _reaches(self, loss: float) -> bool:
        factors = (1 - self._rate * self.eigenvalues).abs()
        present = self._coefficients.abs() > 0
        if (factors[present] > 1).any():
            return False
        stuck = self._coefficients[present & (factors == 1)]
        return 0.5 * stuck.square().sum().item() < loss

    def _powers(self, steps: Steps) -> Tensor:
        t = torch.as_tensor(steps).double().reshape(1, -1)
        if (t < 0).any():
            raise AttangentError("steps has a negative entry, expected steps from 0 on")
        return (1 - self._rate * self.eigenvalues)[:, None] ** t

    def _summed_powers(self, step: int) -> Tensor:
        """rate sum_{s<t} (1 - rate e)^s = (1 - (1 - rate e)^t) / e, with its limit rate t at e = 0."""
        if step < 0:
            raise AttangentError(f"step is {step}, expected a step from 0 on")
        z = self._rate * self.eigenvalues
        small = z.abs() < 0.5
        safe = torch.where(z == 0, torch.ones_like(z), z)
        smooth = -torch.expm1(step * torch.log1p(-torch.where(small, z, 0 * z))) / safe
        direct = (1 - (1 - z) ** step) / safe
        limit = torch.full_like(z, float(step))
        return self._rate * torch.where(z == 0, limit, torch.where(small, smooth, direct))


def _initial_outputs(initial: Any, outputs: Tensor) -> Tensor:
    first = as_tensor("initial", initial).double()
    if first.ndim and first.shape != outputs.shape:
        raise AttangentError(
            f"initial has shape {tuple(first.shape)}, expected {tuple(outputs.shape)}: forward(X_test)"
        )
    return first


def _shape(steps: Steps) -> tuple[int, ...]:
    return tuple(torch.as_tensor(steps).shape)


def log_gap(measured: Tensor, predicted: Tensor) -> float:
    """The largest |log measured - log predicted| of two loss curves.

    >>> round(log_gap(torch.tensor([1.0, 0.5]), torch.tensor([1.0, 0.55])), 3)
    0.095
    """
    if measured.shape != predicted.shape or measured.ndim == 0:
        shapes = f"{tuple(measured.shape)} and {tuple(predicted.shape)}"
        raise AttangentError(f"curves of shapes {shapes} cannot be compared, expected two of the same")
    gap = (measured.log() - predicted.log()).abs().max().item()
    return gap if not math.isnan(gap) else math.inf
