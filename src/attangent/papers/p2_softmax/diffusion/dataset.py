"""Training data of a score estimator: noised points with their times and noisy labels (P2 Section 6.1)."""

from dataclasses import dataclass, replace
from typing import Any

from jaxtyping import Float
from torch import Tensor

from attangent._core.arrays import as_matrix
from attangent._core.checks import check_size
from attangent._core.random import generator
from attangent.papers.p2_softmax.diffusion.process import ForwardProcess, Spacing
from attangent.papers.p2_softmax.diffusion.targets import Target


@dataclass(frozen=True, eq=False)
class ScoreData:
    """Triples (t_i, x(t_i)_i, y_i): the label y_i = x(0)_i is noisy, the true one is E[x(0) | x(t)].

    Args:
        t: (points,), the times.
        x: (points, d), the noised points.
        y: (points, d), the labels.
    """

    t: Float[Tensor, " points"]
    x: Float[Tensor, "points d"]
    y: Float[Tensor, "points d"]

    def __len__(self) -> int:
        return len(self.x)

    @property
    def d(self) -> int:
        return self.x.shape[1]

    def with_labels(self, y: Float[Tensor, "points d"]) -> "ScoreData":
        """Return the same points with other labels."""
        return replace(self, y=y)

    def clean(self, target: Target, process: ForwardProcess) -> "ScoreData":
        """Return the same points with their true labels E[x(0) | x(t)]."""
        return self.with_labels(target.posterior_mean(process, self.t, self.x))


def noised_data(
    points: Any, process: ForwardProcess, *, copies: int = 1, seed: int = 0, spacing: Spacing = "log"
) -> ScoreData:
    """Noise each row of your data `copies` times, each time to another random time.

    Args:
        points: (n, d), the clean points; validate on other points than you train on.
        process: The forward process.
        copies: Noised copies per point.
        seed: Seed of the times and the noise.
        spacing: Whether times are uniform in t or in log t.

    Returns:
        Data of n copies rows.

    Example:
        >>> len(noised_data([[0.0, 1.0], [1.0, 0.0]], ForwardProcess(), copies=3))
        6
    """
    x0 = as_matrix("points", points).repeat(check_size("copies", copies), 1)
    rng = generator(seed, "diffusion data")
    t = process.draw_times(len(x0), rng, spacing)
    return ScoreData(t, process.noised(x0, t, rng), x0)


def draw_data(
    target: Target, process: ForwardProcess, n: int, *, seed: int = 0, spacing: Spacing = "log"
) -> ScoreData:
    """Draw x(0) ~ p_0, t between T0 and T and x(t) ~ p_{t|0} (Section 6.1).

    Args:
        target: The distribution p_0.
        process: The forward process.
        n: How many triples to draw.
        seed: Seed of points, times and noise.
        spacing: Whether times are uniform in t or in log t.

    Returns:
        n triples (t, x(t), x(0)).

    Example:
        >>> from attangent.papers.p2_softmax.diffusion import GaussianMixture
        >>> data = draw_data(GaussianMixture.ring(modes=4), ForwardProcess(), n=100, seed=0)
        >>> data.x.shape, data.y.shape
        (torch.Size([100, 2]), torch.Size([100, 2]))
    """
    points = target.draw(n, generator(seed, "diffusion points"))
    return noised_data(points, process, seed=seed, spacing=spacing)
