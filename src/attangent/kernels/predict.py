"""Predict training from the kernel at initialisation alone (P2 Appendix F)."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator
from torch import Tensor

from attangent._core.checks import check_positive, check_size
from attangent._core.display import brief, table_html
from attangent._core.errors import AttangentError
from attangent._core.plots import finished, in_style, one_panel
from attangent.kernels.checks import as_tensor
from attangent.kernels.operator import krylov_spectrum

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Steps = int | Sequence[int] | Tensor
Matrix = Tensor | NDArray[np.floating]


def vectorise(matrix: Matrix) -> Shaped[Tensor, " N"]:
    """Flatten (n, d_out) in the order of the kernels: entry l*n + i is output l at point i.

    Args:
        matrix: Outputs, targets or residuals (n, d_out).

    Returns:
        A vector of n d_out numbers.

    Example:
        >>> vectorise(torch.tensor([[1, 2], [3, 4]]))
        tensor([1, 3, 2, 4])
    """
    return as_tensor("matrix", matrix).T.reshape(-1)


def predict_training(
    kernel: Matrix | LinearOperator, residual: Matrix, rate: float, *, width: float = 1.0, krylov: int = 200
) -> "Prediction":
    """Predict gradient descent on 1/2 |F - Y|^2 under a constant tangent kernel.

    A scipy LinearOperator (`network.kernel_operator(X)`) is never built: at most `krylov` products span the
    space in which the residual moves. The prediction is then exact up to step krylov - 1, and at a later
    step t off by about exp(-krylov^2/t) of the first loss.

    Args:
        kernel: J J'/width (N, N), a matrix or a scipy LinearOperator.
        residual: F(0) - Y, as (n, d_out) or as a vector (N,) in the kernel's order.
        rate: Learning rate.
        width: `network.width` for the networks of this package, 1 for a plain J J'.
        krylov: Most products with an operator; unused for a matrix.

    Returns:
        The prediction; one eigendecomposition serves all its methods.

    Raises:
        AttangentError: If the shapes do not match, or the kernel is not positive semi-definite.

    Example:
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
    dense = not isinstance(kernel, LinearOperator)
    K: Any = as_tensor("kernel", kernel).double() if dense else kernel
    _check_pair(tuple(K.shape), r)
    eigenvalues, eigenvectors = _spectrum(K) if dense else krylov_spectrum(K, r, krylov)
    return Prediction(eigenvalues, eigenvectors, r, rate * width, width, outputs)


def _check_pair(shape: tuple[int, ...], r: Tensor) -> None:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise AttangentError(f"kernel has shape {shape}, expected a square matrix (train, train)")
    if len(r) != shape[0]:
        raise AttangentError(
            f"residual has {len(r)} entries but the kernel has {shape[0]} rows: "
            "pass F(0) - Y at the points of the kernel"
        )
    if not torch.isfinite(r).all():
        raise AttangentError("residual has NaN or infinite entries: drop those points first")


def _spectrum(K: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues (negative round-off removed) and eigenvectors of a positive semi-definite matrix."""
    if not torch.isfinite(K).all():
        raise AttangentError("kernel has NaN or infinite entries: drop those points first")
    # Kernels from different algorithms are symmetric only to round-off; eigh reads one triangle.
    eigenvalues, eigenvectors = torch.linalg.eigh((K + K.T) / 2)
    top = eigenvalues[-1].clamp(min=0)
    if eigenvalues[0] < -1e-5 * top or top == 0:
        raise AttangentError(
            f"kernel has eigenvalues from {eigenvalues[0]:.3g} to {eigenvalues[-1]:.3g}, "
            "expected a positive semi-definite matrix that is not zero: a Gram matrix of gradients"
        )
    # Round-off around zero would make directions that never train look as if they trained slowly.
    nonzero = torch.where(eigenvalues.abs() < 1e-15 * top, 0 * eigenvalues, eigenvalues)
    return nonzero.clamp(min=0), eigenvectors


class Prediction:
    """Gradient descent under a constant kernel: the residual after t steps is (I - rate K)^t r(0).

    Args:
        eigenvalues: Eigenvalues (k,) of the kernel in rising order, or the Ritz values of an operator.
        eigenvectors: Their vectors (N, k).
        residual: r(0) (N,).
        step_rate: Learning rate times width.
        width: The kernel is J J'/width.
        d_out: Number of outputs.

    Example:
        >>> prediction = predict_training(torch.eye(2), torch.ones(2), rate=0.5)
        >>> prediction.steps_to(0.1), prediction.largest_stable_rate
        (2, 2.0)
    """

    def __init__(
        self,
        eigenvalues: Float[Tensor, " k"],
        eigenvectors: Float[Tensor, "N k"],
        residual: Float[Tensor, " N"],
        step_rate: float,
        width: float,
        d_out: int,
    ):
        self.eigenvalues = eigenvalues
        self.eigenvectors = eigenvectors
        self.width = width
        self.d_out = d_out
        self._rate = step_rate
        self._coefficients = eigenvectors.T @ residual.to(eigenvectors)

    def __repr__(self) -> str:
        return brief(
            self,
            outputs=len(self.eigenvectors),
            rate=self.rate,
            stable_below=self.largest_stable_rate,
            loss=float(self.loss(0)),
        )

    def _repr_html_(self) -> str:
        steps = [0, 1, 10, 100, 1000, 10_000]
        rows = [(f"{step:,}", loss) for step, loss in zip(steps, self.loss(steps).tolist(), strict=True)]
        note = f"rate {self.rate:.4g}; no component grows below {self.largest_stable_rate:.4g}"
        return table_html("Predicted training", ("step", "loss"), rows, [note])

    @in_style
    def plot(
        self, steps: int = 1000, path: str | PathLike[str] | None = None, *, trained: Any = None
    ) -> "Figure":
        """Draw the predicted loss over the first steps.

        Args:
            steps: Number of steps to draw.
            path: File to write the figure to (.png, .svg or .pdf).
            trained: Losses of a real run from step 0 on, drawn for comparison.

        Returns:
            The figure.
        """
        times = torch.linspace(0, check_size("steps", steps), 201).round().unique()
        figure, axes = one_panel()
        axes.plot(times.tolist(), self.loss(times).tolist(), label="predicted")
        if trained is not None:
            real = as_tensor("trained", trained).double().flatten()[: steps + 1]
            every = max(len(real) // 25, 1)
            axes.plot(range(0, len(real), every), real[::every].tolist(), "o", mfc="none", label="trained")
            axes.legend()
        axes.set(yscale="log", xlabel="step", ylabel="loss", title="Loss under a constant kernel")
        return finished(figure, path)

    @property
    def rate(self) -> float:
        """The learning rate of the prediction."""
        return self._rate / self.width

    @property
    def largest_stable_rate(self) -> float:
        """2 / (width lambda_max): below it no component grows, above it the top one does."""
        return 2.0 / (self.width * self.eigenvalues[-1].item())

    def loss(self, steps: Steps) -> Tensor:
        """Predict 1/2 |F(t) - Y|^2.

        Args:
            steps: One step or several.

        Returns:
            One loss per step; a scalar tensor for a single step.
        """
        # In the eigenbasis every component decays by itself, so that any step costs the same.
        decayed = self._coefficients[:, None] * self._powers(steps)
        return 0.5 * decayed.square().sum(dim=0).reshape(torch.as_tensor(steps).shape)

    def residual(self, step: int) -> Tensor:
        """Predict vec(F(t) - Y) in the kernel's order.

        Args:
            step: Number of steps t.

        Returns:
            The residual (N,).
        """
        return self.eigenvectors @ (self._coefficients * self._powers(step)[:, 0])

    def outputs(self, test_kernel: Any, step: int, initial: Any = 0.0) -> Tensor:
        """Predict F0 - K_te V [(1 - (1 - rate e)^t) / e] V' r(0), the outputs at test points.

        Args:
            test_kernel: Kernel (d_out points, N) between test and training points, scaled like the kernel
                of the prediction: a matrix or a LinearOperator.
            step: Number of steps t.
            initial: Outputs of the untrained network at the test points (zero if `symmetric`).

        Returns:
            Outputs (points, d_out).

        Raises:
            AttangentError: If the shapes do not match.
        """
        K = test_kernel if isinstance(test_kernel, LinearOperator) else as_tensor("test_kernel", test_kernel)
        trained = len(self.eigenvectors)
        shape = tuple(K.shape)
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
        """Find the first step at which the predicted loss is at most `loss`.

        Exact below the largest stable rate, at which the predicted loss falls in every step.

        Args:
            loss: The loss to reach.

        Returns:
            The step, or None if the predicted loss never gets there.
        """
        check_positive("loss", loss)
        if self.loss(0) <= loss:
            return 0
        if not self._reaches(loss):
            return None
        # The loss is monotone: double until it is low enough, then bisect. log2(steps) evaluations in all.
        high = 1
        while self.loss(high) > loss:
            high *= 2
        return bisect_left(range(high), True, lo=high // 2, key=lambda step: bool(self.loss(step) <= loss))

    def _reaches(self, loss: float) -> bool:
        # A factor above 1 grows without bound; a factor of exactly 1 never shrinks.
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
        # 1 - (1 - z)^t cancels for small z, expm1 and log1p do not; log1p fails beyond z = 1.
        small = z.abs() < 0.5
        # torch.where evaluates both branches: divide by 1 at z = 0 to keep NaN out.
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


def log_gap(measured: Any, predicted: Any) -> float:
    """Compute the largest |log measured - log predicted| of two loss curves.

    Args:
        measured: Losses of a run.
        predicted: As many predicted losses.

    Returns:
        The gap; infinite if a loss is not a positive number.

    Raises:
        AttangentError: If the curves differ in shape.

    Example:
        >>> round(log_gap(torch.tensor([1.0, 0.5]), torch.tensor([1.0, 0.55])), 3)
        0.095
    """
    first = as_tensor("measured", measured)
    second = as_tensor("predicted", predicted)
    if first.shape != second.shape or first.ndim == 0:
        raise AttangentError(
            f"the curves have shapes {tuple(first.shape)} and {tuple(second.shape)}, expected equal shapes"
        )
    gap = (first.log() - second.log()).abs().max().item()
    return gap if not math.isnan(gap) else math.inf
