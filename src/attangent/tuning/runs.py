"""What `finetune` found, one entry for each seed, and how it shows itself."""

from os import PathLike
from typing import TYPE_CHECKING, Any

from attangent._core.display import brief, table_html
from attangent._core.errors import AttangentError
from attangent._core.plots import bars, finished, in_style, one_panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SCORES = ("eval_accuracy", "eval_rmse", "eval_loss")


class TuningRuns(list[dict[str, Any]]):
    """The metrics of each seed, a plain list that notebooks show as a table."""

    @property
    def score(self) -> str:
        """The name of the score that counts: accuracy, rmse or loss."""
        return next((name for name in _SCORES if self and name in self[0]), "")

    def __repr__(self) -> str:
        values = [round(metrics[self.score], 4) for metrics in self] if self.score else []
        return brief(self, seeds=len(self), **({self.score[5:]: values[:4]} if values else {}))

    def _repr_html_(self) -> str:
        names = [name for name in (self[0] if self else {}) if not isinstance(self[0][name], dict)]
        rows = [tuple(metrics.get(name) for name in names) for metrics in self]
        return table_html(f"{len(self)} tuning runs", [_word(name) for name in names], rows)

    @in_style
    def plot(self, path: str | PathLike[str] | None = None) -> "Figure":
        """Draw the score of each seed; also to a file, where one is named."""
        if not self.score:
            raise AttangentError("there is no run with a score to draw: tune first")
        figure, axes = one_panel((6.0, 1.0 + 0.35 * len(self)))
        scores = {f"seed {metrics['seed']}": float(metrics[self.score]) for metrics in self}
        bars(axes, scores, _word(self.score))
        return finished(figure, path)


def _word(name: str) -> str:
    return name.removeprefix("eval_").replace("_", " ")
