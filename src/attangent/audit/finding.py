"""The measurements of a check: hypotheses, conclusions, numbers, figures, and the resulting verdict."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from attangent._core.display import brief, brief_fields
from attangent._core.errors import AttangentError
from attangent.audit.evidence import Conclusion, Hypothesis, Trend, is_identity, pooled_interval
from attangent.audit.proofs import Proof
from attangent.audit.verdicts import Judgement, Verdict, judge_parts, overall

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

SeriesKind = Literal["line", "bound", "points", "bars"]
Vector = NDArray[np.float64]

__all__ = ["Conclusion", "Figure", "Finding", "Hypothesis", "Series", "SeriesKind", "Trend", "Verdict"]


@dataclass(frozen=True)
class Series:
    """One curve of a figure; `Series.of` builds one from anything array-like.

    Attributes:
        label: Its name in the legend.
        x: The positions.
        y: The values.
        kind: "line", "bound" (dashed), "points" (no line) or "bars" (next to each other).

    Example:
        >>> Series.of("loss", [0, 1, 2], [3.0, 2.0, 1.5]).y.tolist()
        [3.0, 2.0, 1.5]
    """

    label: str
    x: Vector
    y: Vector
    kind: SeriesKind = "line"

    __repr__ = brief_fields

    def __post_init__(self) -> None:
        if self.x.ndim != 1 or self.x.shape != self.y.shape:
            raise AttangentError(
                f"x and y of series {self.label!r} must be vectors of equal length "
                f"(got shapes {self.x.shape} and {self.y.shape})"
            )

    @classmethod
    def of(cls, label: str, x: Any, y: Any, kind: SeriesKind = "line") -> "Series":
        """Return a series from anything array-like.

        Args:
            label: Its name in the legend.
            x: The positions.
            y: The values.
            kind: "line", "bound", "points" or "bars".

        Returns:
            The series.

        Raises:
            AttangentError: If x and y are not two vectors of numbers of equal length.
        """
        try:
            ends = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            raise AttangentError(f"x and y of series {label!r} must hold numbers: {error}") from None
        return cls(label, *ends, kind)


@dataclass(frozen=True)
class Figure:
    """A figure of the measurement: axes and series.

    Attributes:
        title: The title.
        x_label: The label of the x axis.
        y_label: The label of the y axis.
        series: The curves.
        log_x: Whether the x axis is logarithmic.
        log_y: Whether the y axis is logarithmic.
        ticks: Names of the positions 0, 1, ... on the x axis, for bars.

    Example:
        >>> Figure("Loss", "step", "loss", (Series.of("run", [0, 1], [2.0, 1.0]),)).title
        'Loss'
    """

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    ticks: tuple[str, ...] = ()

    __repr__ = brief_fields


@dataclass(frozen=True, repr=False)
class Finding:
    """The measurements of one check with one seed.

    Attributes:
        conclusions: The measured consequences; the statement must claim at least one.
        hypotheses: The conditions of the statement.
        numbers: Further measured numbers by name.
        figures: Figures of the measurement.
        remark: One or two sentences that explain the numbers.
        differs: Differences from the paper's setting: another model, other data, another recipe.
        smaller: The stand-in of a large experiment: "digits of 8 x 8 pixels for ImageNet". Its result decides
            nothing about the paper and is counted separately.
        lacks: The extra of attangent that has to be installed before anything can be measured.
        crash: The last line of the traceback, if the check raised an error.
        proof: An exact argument; the runner adds it.
        refuted: Whether the proof shows that the statement fails, which decides the verdict.

    Example:
        >>> from attangent.audit import Conclusion, Hypothesis
        >>> Finding(
        ...     hypotheses=(Hypothesis("width m", ">=", 100, 4096),),
        ...     conclusions=(Conclusion("loss / bound", "<=", 1.0, 0.93),),
        ... ).verdict.value
        'holds'
    """

    conclusions: tuple[Conclusion, ...]
    hypotheses: tuple[Hypothesis, ...] = ()
    numbers: dict[str, float] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    remark: str = ""
    differs: tuple[str, ...] = ()
    lacks: str = ""
    crash: str = ""
    proof: Proof | None = None
    refuted: bool = False
    smaller: str = ""

    def __post_init__(self) -> None:
        if not self.crash and not any(conclusion.claimed for conclusion in self.conclusions):
            raise AttangentError("a finding needs at least one conclusion that the statement claims")

    def __repr__(self) -> str:
        counts = {name: len(getattr(self, name)) for name in ("conclusions", "hypotheses", "figures")}
        return brief(self, verdict=self.verdict.value, **counts)

    def _repr_html_(self) -> str:
        from attangent.audit.report.page import finding_html

        return finding_html(self)

    def plot(self, path: str | PathLike[str] | None = None) -> "MatplotlibFigure":
        """Draw its figures, one panel per figure.

        Args:
            path: A .png, .svg or .pdf file to write as well.

        Returns:
            The matplotlib figure.

        Raises:
            AttangentError: If the finding has no figure, or the path ends in something else.
        """
        from attangent.audit.report.figures import plot_figures

        return plot_figures(self.figures, path)

    @property
    def hypotheses_met(self) -> bool:
        """Whether every hypothesis is met in the paper's setting."""
        return not self.differs and not self.smaller and all(hypothesis.met for hypothesis in self.hypotheses)

    @property
    def judgements(self) -> dict[str, Judgement]:
        """The verdict on each part of the statement."""
        judged = judge_parts(self.conclusions, self.hypotheses, self.differs, self.smaller)
        if self.proof is not None and self.refuted:
            judged[self.proof.part] = Judgement(Verdict.VIOLATED)
        return judged

    @property
    def verdict(self) -> Verdict:
        """The verdict on the statement."""
        return Verdict.CRASHED if self.crash else overall(self.judgements.values())

    @property
    def deciding(self) -> Conclusion | None:
        """The line that the verdict depends on most; None if no line decides.

        It is the first line that failed, in a violated part if there is one. Otherwise it is the first
        undecided line, else the first that could have failed, else the first.
        """
        lines = [line for line in self.conclusions if line.decides]
        judged = self.judgements
        failed = [line for line in lines if line.kept is False]
        refuted = [line for line in failed if judged[line.part].verdict is Verdict.VIOLATED]
        undecided = [line for line in lines if line.kept is None]
        informative = [line for line in lines if not line.cannot_fail]
        return next(iter([*refuted, *failed, *undecided, *informative, *lines]), None)


def pooled(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings of all seeds; a trend that each of them has gets one interval from all seeds."""
    trends = [
        {line.name: line.trend for line in finding.conclusions if line.trend}
        for finding in findings
        if not finding.crash
    ]
    shared = [name for name in (trends[0] if trends else ()) if all(name in seed for seed in trends)]
    by_name = {name: [seed[name] for seed in trends] for name in shared}
    fitted = {
        name: {"interval": pooled_interval(seeds), "identity": is_identity(seeds)}
        for name, seeds in by_name.items()
    }
    return [
        replace(
            finding,
            conclusions=tuple(
                replace(line, **fitted[line.name]) if line.trend and line.name in fitted else line
                for line in finding.conclusions
            ),
        )
        for finding in findings
    ]
