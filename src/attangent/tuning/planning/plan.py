"""A plan: which method, rate and length to train with, and what is expected of all runs looked at."""

import math
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attangent import __version__
from attangent._errors import AttangentError
from attangent._files import write_json
from attangent._settings import read_json, settings_of
from attangent._show import Toned, brief, table_html
from attangent.tuning.data.columns import Columns
from attangent.tuning.methods import Method
from attangent.tuning.recipe import Recipe
from attangent.tuning.request import Tuning, digest_of
from attangent.tuning.training import Training

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT = "attangent plan 1"
_POINTS = 60
"""Points of a curve that a plan keeps."""


@dataclass(frozen=True)
class PlannedRun:
    """One run as it is expected to go.

    train_loss: the mean over all steps; curve: the loss after each of at most 60 equal parts of the run.
    score: accuracy (R^2 for regression) on the rows to score on, between `low` and `high` with 90 %.
    loss_sure: whether the training loss should come within 5 %; score_sure: the score within 2 points.
    departure: how far the model is from its tangent at the end, 0 where the tangent says all and 1 where it
    says nothing. corrections: how many new tangents were taken on the way.
    seconds, megabytes: what the real run is estimated to take. default: whether `tune` would make this run
    without a plan.
    """

    method: str
    learning_rate: float
    epochs: float
    steps: int
    train_loss: float
    curve: tuple[float, ...]
    eval_loss: float
    score: float
    low: float
    high: float
    departure: float
    loss_sure: bool
    score_sure: bool
    corrections: int
    seconds: float
    megabytes: float
    default: bool = False

    @property
    def follows(self) -> bool:
        """Whether both figures can be believed."""
        return self.loss_sure and self.score_sure


@dataclass(frozen=True, repr=False)
class Plan:
    """What `tune` was going to be asked, the runs that were looked at, and which of them to take.

    asked: the settings of the tuning as `tune` writes them, with one method's for each name in `methods`.
    start: the score before any training. scored: at how many rows scores are foretold.
    """

    asked: dict[str, Any]
    measure: str
    start: float
    scored: int
    runs: tuple[PlannedRun, ...]
    chosen: int
    seconds: float
    version: str = field(default=__version__)

    def __post_init__(self) -> None:
        if not self.runs or not 0 <= self.chosen < len(self.runs):
            raise AttangentError(f"the plan has {len(self.runs)} runs and chooses number {self.chosen}")

    def __repr__(self) -> str:
        run = self.choice
        expected = {self.measure: run.score, "low": run.low, "high": run.high}
        return brief(self, take=run.method, rate=run.learning_rate, epochs=run.epochs, **expected)

    def _repr_html_(self) -> str:
        columns = ("method", "rate", "epochs", "train loss", "eval loss", self.measure, "90 % interval", "")
        notes = (self.advice, "?: may be off by more than 5 % (loss) or 2 points (score)")
        return table_html("Runs as planned", columns, map(self._cells, self.shown), notes)

    def plot(self, path: str | PathLike[str] | None = None) -> "Figure":
        """Draw the losses that are expected and the score at each rate; also to a file, if one is named."""
        from attangent.tuning.planning.figure import plot_plan

        return plot_plan(self, path)

    @property
    def choice(self) -> PlannedRun:
        return self.runs[self.chosen]

    @property
    def shown(self) -> list[PlannedRun]:
        """The runs of full length, and the one to take."""
        longest = max(run.epochs for run in self.runs)
        return [run for run in self.runs if run.epochs == longest or run == self.choice]

    @property
    def advice(self) -> str:
        """What to do, in words."""
        run = self.choice
        taken = (
            f"take {run.method} at rate {run.learning_rate:g} for {run.epochs:g} epochs ({run.steps} steps): "
            f"{self.measure} {run.score:.3f} expected, {run.low:.3f} to {run.high:.3f} with 90 %; "
            f"{self.start:.3f} before training"
        )
        if run.score < self.start:
            taken += ". No run is expected to do better than that: tune --method probe trains nothing"
        return taken if self.measure == "r2" or self.scored >= _MANY else f"{taken}. {self._doubt}"

    @property
    def _doubt(self) -> str:
        """How far the accuracy on few rows may be from that on others."""
        share = min(max(self.choice.score, 0.5 / self.scored), 1 - 0.5 / self.scored)
        points = 100 * 1.645 * math.sqrt(share * (1 - share) / self.scored)
        return (
            f"These are {self.scored} rows only: on others the accuracy may well be {points:.0f} points "
            "higher or lower; give more rows with --eval to know better"
        )

    def _cells(self, run: PlannedRun) -> tuple[Any, ...]:
        loss, score = (
            f"{value:.4f}{'' if sure else ' ?'}"
            for value, sure in ((run.train_loss, run.loss_sure), (run.score, run.score_sure))
        )
        bounds = f"{run.low:.3f} to {run.high:.3f}"
        taken = Toned("take", "good") if run == self.choice else "tune's default" if run.default else ""
        return run.method, run.learning_rate, run.epochs, loss, run.eval_loss, score, bounds, taken

    def write(self, path: Path) -> None:
        write_json(path, {"format": FORMAT, **asdict(self)})

    def run_like(self, method: str, rate: float, epochs: float) -> PlannedRun | None:
        """The run of this method, rate and length; None where it was not looked at."""
        for run in self.runs:
            same = math.isclose(run.learning_rate, rate, rel_tol=1e-6) and math.isclose(run.epochs, epochs)
            if run.method == method and same:
                return run
        return None


def read_plan(path: Path) -> Plan:
    """The plan in a file; one that is not ours or not whole is refused."""
    path = path / "plan.json" if path.is_dir() else path
    content = read_json(path)
    if content.pop("format", None) != FORMAT:
        raise AttangentError(f"{path} does not say {FORMAT!r}; give a file that `attangent plan` wrote")
    return settings_of(Plan, content, str(path))


def best_run(runs: list[PlannedRun]) -> int:
    """The run to take: the one whose score is highest at the lower end of its interval.

    So a run that cannot be predicted has to promise more. Of runs within half a point the one of least loss
    is taken.
    """
    best = max(run.low for run in runs)
    near = [i for i, run in enumerate(runs) if run.low >= best - _NEAR]
    return min(near, key=lambda i: (runs[i].eval_loss, runs[i].steps))


_NEAR = 0.005


def interval(
    score: float, variance: float, gap: float, rows: int, values: bool = False
) -> tuple[float, float]:
    """Where the score is with 90 %: over orders of the rows, and over what such predictions are off by.

    variance: over orders. What predictions are off by is half a row, a standard deviation of 1.2 points, and
    half the gap between the tangent's score and the model's own; it was set on tasks that no reported figure
    comes from (docs/planning.md).
    """
    half = 1.645 * math.sqrt(variance + _OFF**2 + (gap / 2) ** 2 + (0.5 / rows) ** 2)
    return (-math.inf if values else 0.0) if score - half < 0 else score - half, min(score + half, 1.0)


def is_sure_of_loss(departure: float, gap: float) -> bool:
    """Whether the training loss comes within 5 %, as far as can be said.

    The gap, relative, lies between the tangent's loss and the model's own, the middle of which is expected.
    It may be small by chance where the model is far from its tangent.
    """
    return departure <= _FAR and gap <= _LOSS_GAP


def is_sure_of_score(departure: float, score: float, low: float) -> bool:
    """Whether the score comes within 2 points most of the time: an interval of 90 % is 5 points wide then."""
    return departure <= _FAR and score - low <= _HALF_WIDTH


_OFF, _HALF_WIDTH = 0.012, 0.025
_MANY = 200
"""Rows to score on from which their number is not worth a word."""
_FAR, _LOSS_GAP = 0.5, 0.07


def thinned(losses: list[float]) -> tuple[float, ...]:
    """At most 60 means over equal parts of the run."""
    size = max(1, math.ceil(len(losses) / _POINTS))
    parts = [losses[i : i + size] for i in range(0, len(losses), size)]
    return tuple(sum(part) / len(part) for part in parts)


def tuning_of(plan: Plan) -> Tuning:
    """The tuning that follows the plan; refused where its files are not as they were."""
    asked, run = plan.asked, plan.choice
    columns = asked["columns"]
    tuning = Tuning(
        model=asked["model"],
        train=Path(asked["train"]),
        evaluate=None if asked["evaluate"] is None else Path(asked["evaluate"]),
        task=asked["task"],
        layout=asked["layout"],
        max_tokens=asked["max_tokens"],
        method=Method.from_dict({**asked["methods"][run.method], "learning_rate": run.learning_rate}),
        training=settings_of(Training, {**asked["training"], "epochs": run.epochs}, "the plan's training"),
        columns=None if columns is None else Columns(tuple(columns[:-1]), columns[-1]),
        pooling=asked["pooling"],
        class_weights=asked["class_weights"],
        recipe=settings_of(Recipe, asked["recipe"], "the plan's recipe"),
    )
    if [digest_of(path) for path in tuning.files] != list(asked["digests"]):
        raise AttangentError(
            f"{' or '.join(map(str, tuning.files))} has changed since the plan was made; plan again"
        )
    return tuning
