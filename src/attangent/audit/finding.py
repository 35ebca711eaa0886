"""What a check measured: hypotheses, conclusions, numbers, figures, and the verdict they add up to."""

from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from attangent._core.display import brief, brief_fields
from attangent._core.errors import AttangentError
from attangent.audit.evidence import Conclusion, Hypothesis, Trend
from attangent.audit.verdicts import Judgement, Verdict, judge_parts, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

SeriesKind = Literal["line", "bound", "points", "bars"]

__all__ = ["Conclusion", "Figure", "Finding", "Hypothesis", "Series", "SeriesKind", "Trend", "Verdict"]


@dataclass(frozen=True)
class Series:
    """One curve of a figure. `bound` is drawn dashed, `points` without a line, `bars` side by side."""

    label: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    kind: SeriesKind = "line"

    __repr__ = brief_fields

    @classmethod
    def of(cls, label: str, x: Any, y: Any, kind: SeriesKind = "line") -> "Series":
        """A series from anything array-like."""
        try:
            series = cls(label, np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64), kind)
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            raise AttangentError(f"series {label!r} has x or y that are no numbers: {error}") from None
        if series.x.ndim != 1 or series.x.shape != series.y.shape:
            raise AttangentError(
                f"series {label!r} has x of shape {series.x.shape} and y of shape {series.y.shape}, "
                "expected two vectors of equal length"
            )
        return series


@dataclass(frozen=True)
class Figure:
    """A picture of the measurement: axes and series."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    ticks: tuple[str, ...] = ()
    """Names of the positions 0, 1, ... on the x axis, for bars."""

    __repr__ = brief_fields


@dataclass(frozen=True, repr=False)
class Finding:
    """What one check measured with one seed. The runner adds where it comes from (see `store.Record`).

    >>> from attangent.audit import Conclusion, Hypothesis
    >>> Finding(
    ...     hypotheses=(Hypothesis("width m", ">=", 100, 4096),),
    ...     conclusions=(Conclusion("loss / bound", "<=", 1.0, 0.93),),
    ... ).verdict.value
    'holds'
    """

    conclusions: tuple[Conclusion, ...]
    hypotheses: tuple[Hypothesis, ...] = ()
    """Empty where the statement names none."""
    numbers: dict[str, float] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    remark: str = ""
    """One or two sentences on what the measurement shows, where the numbers need them."""
    differs: tuple[str, ...] = ()
    """In what the run differs from the paper's setting: another model, other data, another recipe."""
    lacks: str = ""
    """The extra of attangent whose packages were not installed, where that is why nothing was measured."""
    crash: str = ""
    """The last line of the traceback, where the check raised."""

    def __post_init__(self) -> None:
        if not self.crash and not any(conclusion.claimed for conclusion in self.conclusions):
            raise AttangentError("a finding needs at least one conclusion that the statement claims")

    def __repr__(self) -> str:
        counts = {name: len(getattr(self, name)) for name in ("conclusions", "hypotheses", "figures")}
        return brief(self, verdict=self.verdict.value, **counts)

    def _repr_html_(self) -> str:
        from attangent.audit.report.notebook import finding_html

        return finding_html(self)

    def plot(self, path: str | PathLike[str] | None = None) -> "Picture":
        """Draw its figures, one panel for each; also to a file, where one is named."""
        from attangent.audit.report.notebook import plot_figures

        return plot_figures(self.figures, path)

    @property
    def hypotheses_met(self) -> bool:
        """Whether every hypothesis was met, in the paper's own setting."""
        return not self.differs and all(hypothesis.met for hypothesis in self.hypotheses)

    @property
    def judgements(self) -> dict[str, Judgement]:
        """The judgement on each part of the statement."""
        return judge_parts(self.conclusions, self.hypotheses, self.differs)

    @property
    def verdict(self) -> Verdict:
        return Verdict.CRASHED if self.crash else whole(self.judgements.values())

    @property
    def deciding(self) -> Conclusion | None:
        """The line that the verdict rests on; None where no line decides.

        The first that failed (with a part that is violated before others), else the first undecided one, else
        the first that could have failed, else the first.
        """
        lines = [line for line in self.conclusions if line.decides]
        judged = self.judgements
        failed = [line for line in lines if line.kept is False]
        refuted = [line for line in failed if judged[line.part].verdict is Verdict.VIOLATED]
        undecided = [line for line in lines if line.kept is None]
        telling = [line for line in lines if not line.cannot_fail]
        return next(iter([*refuted, *failed, *undecided, *telling, *lines]), None)

    @property
    def refuted_by_trend(self) -> bool:
        """Whether it is violated by trends alone: that takes several seeds."""
        judged = self.judgements
        failed = [line for line in self.conclusions if line.decides and line.kept is False]
        refuting = [line for line in failed if judged[line.part].verdict is Verdict.VIOLATED]
        return bool(refuting) and all(line.trend for line in refuting)
