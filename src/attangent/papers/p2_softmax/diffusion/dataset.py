"""Training data of a score estimator: noised points with their times and noisy labels (P2 Section 6.1)."""

from dataclasses import dataclass, replace
from typing import Any, Self

from torch import Tensor

from attangent._core.checks import check_between, check_size
from attangent._core.display import brief_fields
from attangent._core.errors import AttangentError
from attangent._core.memory import check_memory
from attangent._core.random import generator
from attangent.papers.p2_softmax.diffusion._inputs import as_points, as_times
from attangent.papers.p2_softmax.diffusion.mixture import Target
from attangent.papers.p2_softmax.diffusion.process import ForwardProcess, Spacing


@dataclass(frozen=True, eq=False)
class ScoreData:
    """Triples (t_i, x(t_i)_i, y_i): the label y_i = x(0)_i is noisy, E[x(0) | x(t)] is the true one."""

    t: Tensor
    x: Tensor
    y: Tensor

    __repr__ = brief_fields

    def __post_init__(self) -> None:
        x = as_points("x", self.x)
        y = as_points("y", self.y, x.shape[1])
        if len(y) != len(x):
            raise AttangentError(f"y has {len(y)} rows but x has {len(x)}: one label a point")
        for name, value in (("t", as_times(self.t, len(x))), ("x", x), ("y", y)):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def d(self) -> int:
        return self.x.shape[1]

    def with_labels(self, y: Tensor) -> Self:
        """The same points with other labels."""
        return replace(self, y=y)

    def clean(self, target: Target, process: ForwardProcess) -> Self:
        """The same points with their true labels E[x(0) | x(t)]."""
        return self.with_labels(target.posterior_mean(process, self.t, self.x))

    def check_beside(self, validation: Self | None) -> None:
        """Refuse validation data of another dimension."""
        if validation is not None and validation.d != self.d:
            raise AttangentError(f"validation has {validation.d} coordinates but data has {self.d}")

    def split(self, share: float = 0.2) -> tuple[Self, Self]:
        """The first 1 - share of the rows for training, the rest for validation."""
        cut = round((1 - check_between("share", share, 0, 1)) * len(self))
        if not 0 < cut < len(self):
            raise AttangentError(
                f"share {share!r} of {len(self)} rows leaves nothing to train or to validate on"
            )
        parts = (slice(0, cut), slice(cut, None))
        first, second = (replace(self, t=self.t[rows], x=self.x[rows], y=self.y[rows]) for rows in parts)
        return first, second


def noised_data(
    points: Any, process: ForwardProcess, *, copies: int = 1, seed: int = 0, spacing: Spacing = "log"
) -> ScoreData:
    """Each row of your own data noised `copies` times, each time to a time of its own.

    With several copies, validate on other points: `split` would set copies of the same points aside.
    """
    x0 = as_points("points", points)
    check_memory("the noised points", points=len(x0), copies=check_size("copies", copies), d=x0.shape[1])
    x0 = x0.repeat(copies, 1)
    rng = generator(seed, "diffusion data")
    t = process.draw_times(len(x0), rng, spacing)
    return ScoreData(t, process.noised(x0, t, rng), x0)


def draw_data(
    target: Target, process: ForwardProcess, n: int, *, seed: int = 0, spacing: Spacing = "log"
) -> ScoreData:
    """n draws x(0) ~ p_0, t between T0 and T, x(t) ~ p_{t|0} (Section 6.1).

    >>> from attangent.papers.p2_softmax.diffusion import ForwardProcess, GaussianMixture
    >>> data = draw_data(GaussianMixture.ring(modes=4), ForwardProcess(), n=100, seed=0)
    >>> data.x.shape, data.y.shape
    (torch.Size([100, 2]), torch.Size([100, 2]))
    """
    points = target.draw(n, generator(seed, "diffusion points"))
    return noised_data(points, process, seed=seed, spacing=spacing)
