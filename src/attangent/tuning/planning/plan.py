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
_MANY = 200
"""Rows to score on from which their number is not worth a word."""


@dataclass(frozen=True)
class PlannedRun:
    """One run as it is expected to go.

    train_loss: the mean over all steps; curve: the loss after each of at most 60 equal parts of the run.
    score: accuracy (R^2 for regression) on the rows to score on, between `low` and `high` with 90 %.
    loss_sure: whether the training loss should come within 5 %; score_sure: the score within 2 points.
    departure: how far the model is from its tangent at the end, 0 where the tangent says all and 1 where it
    says nothing. corrections: how many new tangents were taken on the way.
    seconds, megabytes: what the real run is estimated to take. default: whether `tune` would make this run
    without a plan. made: the score that the run came to where it was made while planning.
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
    made: float | None = None

    @property
    def promise(self) -> float:
        """The score it came to, or else the one that is expected."""
        return self.score if self.made is None else self.made

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
        expected = {self.measure: run.promise, "low": run.low, "high": run.high}
        return brief(self, take=run.method, rate=run.learning_rate, epochs=run.epochs, **expected)

    def _repr_html_(self) -> str:
        columns = ("method", "rate", "epochs", "train loss", "eval loss", self.measure, "90 % interval")
        columns = (*columns, "made", "")
        notes = (*self.advice.split("\n"), "?: may be off by more than 5 % (loss) or 2 points (score)")
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
        lines = [
            f"take {run.method} at rate {run.learning_rate:g} for {run.epochs:g} epochs ({run.steps} steps): "
            f"{self._promised(run)}; {self.start:.3f} before training"
        ]
        lines += self._beside_default
        if run.promise <= self.start:
            lines.append(
                f"training gains no {self.measure} on these rows: tune --method probe does without it"
            )
        if self.measure != "r2" and self.scored < _MANY:
            lines.append(self._doubt)
        return "\n".join(lines)

    def _promised(self, run: PlannedRun) -> str:
        bounds = f"{run.low:.3f} to {run.high:.3f} with 90 %"
        if run.made is None:
            return f"{self.measure} {run.score:.3f} expected, {bounds}"
        return f"{self.measure} {run.made:.3f} when it was made; {run.score:.3f} was expected, {bounds}"

    @property
    def _beside_default(self) -> list[str]:
        """What the first method's run by default would come to, where it is not the one to take."""
        first = self.runs[0].method
        usual = next((run for run in self.runs if run.default and run.method == first), None)
        if usual is None:
            return []
        what = f"tune --method {first} without a plan"
        if usual == self.choice:
            return [f"{what} makes the same run; nothing else promises clearly more"]
        return [f"{what} takes rate {usual.learning_rate:g}: {self._promised(usual)}"]

    @property
    def _doubt(self) -> str:
        """How far the accuracy on few rows may be from that on others."""
        share = min(max(self.choice.promise, 0.5 / self.scored), 1 - 0.5 / self.scored)
        points = 100 * 1.645 * math.sqrt(share * (1 - share) / self.scored)
        way = "lower" if share + points / 100 > 1 else "higher or lower"
        return (
            f"these are {self.scored} rows only: on others accuracy may well be {points:.0f} points {way}; "
            "give more rows with --eval to know better"
        )

    def _cells(self, run: PlannedRun) -> tuple[Any, ...]:
        loss, score = (
            f"{value:.4f}{'' if sure else ' ?'}"
            for value, sure in ((run.train_loss, run.loss_sure), (run.score, run.score_sure))
        )
        bounds = f"{run.low:.3f} to {run.high:.3f}"
        taken = Toned("take", "good") if run == self.choice else "tune's default" if run.default else ""
        made = "" if run.made is None else f"{run.made:.3f}"
        return run.method, run.learning_rate, run.epochs, loss, run.eval_loss, score, bounds, made, taken

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
