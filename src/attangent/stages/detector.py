"""Find stages in a finished run, during a run, and during a Hugging Face training."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
import torch

from attangent._core.checks import check_between, check_size
from attangent._core.display import brief
from attangent._core.errors import AttangentError
from attangent._core.modules import eval_mode
from attangent._core.plots import check_picture
from attangent.stages.findings import Findings
from attangent.stages.group import FEWEST, Group, Stage, examine

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import nn
    from transformers import TrainerCallback

_GROWTH = 1.2
"""A group is examined again when its readings have grown by this factor."""
_LOOKS = 5.0
"""Repeated examinations share the false-alarm rate: each takes this fraction of it."""


@dataclass(frozen=True)
class Event:
    """An onset or completion that `update` reports, and its step."""

    name: str
    kind: Literal["onset", "completion"]
    step: float

    def __str__(self) -> str:
        verb = "begins to fall" if self.kind == "onset" else "has fallen"
        return f"{self.name} {verb} at step {self.step:g}"


def find_stages(
    readings: pd.DataFrame, *, warmup: float = -math.inf, false_alarms: float = 0.05, least: float = 0.05
) -> Findings:
    """Find the stages of every group.

    Args:
        readings: Columns group, step and loss; the steps of a group rise.
        warmup: Leave out readings before this step.
        false_alarms: Share of stage-free groups in which a stage is reported.
        least: Smallest share of a group's total fall that counts as a stage.

    Returns:
        The stages of all groups, their order, a table, a summary and a figure.

    Raises:
        AttangentError: If a column is missing or an option is out of range.

    Example:
        >>> import numpy as np, pandas as pd
        >>> steps = np.arange(120)
        >>> loss = 1 + 1 / (1 + np.exp((steps - 60) / 4))
        >>> findings = find_stages(pd.DataFrame({"group": "a", "step": steps, "loss": loss}))
        >>> [(round(stage.onset), round(stage.completion)) for stage in findings.stages]
        [(51, 69)]
    """
    check_between("false_alarms", false_alarms, 1e-6, 0.5)
    check_between("least", least, 0.0, 1.0)
    if not isinstance(readings, pd.DataFrame) or not {"group", "step", "loss"} <= set(readings.columns):
        columns = list(getattr(readings, "columns", [])) or type(readings).__name__
        raise AttangentError(f"readings are {columns}, expected a frame with the columns group, step, loss")
    groups = readings[readings["step"] >= warmup].groupby("group", sort=False)
    return Findings(
        tuple(examine(str(name), rows["step"], rows["loss"], false_alarms, least) for name, rows in groups)
    )


class StageDetector:
    """Finds the stages of a run during training, from the losses of named groups.

    A group is examined again whenever its readings have grown by a fifth; `update` returns what is new.
    `stages`, `order`, `findings` and `summary()` describe all readings up to now and are computed on demand.

    Args:
        groups: Names of the groups.
        warmup: Leave out readings before this step.
        false_alarms: Share of stage-free groups in which a stage is reported.
        least: Smallest share of a group's total fall that counts as a stage.

    Raises:
        AttangentError: If the names are not different or an option is out of range.

    Example:
        >>> import math
        >>> detector = StageDetector(["easy", "hard"])
        >>> for step in range(40):
        ...     easy, hard = (1 / (1 + math.exp((step - middle) / 2)) for middle in (10, 25))
        ...     events = detector.update(step, {"easy": easy, "hard": hard})
        >>> detector.order
        ('easy', 'hard')
    """

    def __init__(
        self, groups: Iterable[str], *, warmup: float = 0.0, false_alarms: float = 0.05, least: float = 0.05
    ):
        names = tuple(groups)
        if not names or len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
            raise AttangentError(f"groups are {names}, expected one or more different names")
        self.warmup = warmup
        self.false_alarms = check_between("false_alarms", false_alarms, 1e-6, 0.5)
        self.least = check_between("least", least, 0.0, 1.0)
        self._steps: dict[str, list[float]] = {name: [] for name in names}
        self._losses: dict[str, list[float]] = {name: [] for name in names}
        self._next_look = dict.fromkeys(names, FEWEST)
        self._reported: dict[str, list[Event]] = {name: [] for name in names}
        self._cached: tuple[int, Findings] | None = None

    def __repr__(self) -> str:
        return brief(self, groups=list(self._steps), readings=sum(map(len, self._steps.values())))

    def _repr_html_(self) -> str:
        return self.findings._repr_html_()

    def plot(self, path: str | PathLike[str] | None = None) -> "Figure":
        """Draw all readings with their stages.

        Args:
            path: File to write the figure to (.png, .svg or .pdf).

        Returns:
            The figure.
        """
        return self.findings.plot(self.readings, path)

    def update(self, step: float, losses: Mapping[str, float]) -> tuple[Event, ...]:
        """Add the losses read at one step.

        Args:
            step: The step; later than the last one of these groups.
            losses: The loss of each group, or of some.

        Returns:
            Onsets and completions that were not reported before.

        Raises:
            AttangentError: If a group is unknown, a loss is not finite, or the step is not later.
        """
        unknown = set(losses) - set(self._steps)
        if unknown:
            raise AttangentError(f"losses name {sorted(unknown)}, expected some of {', '.join(self._steps)}")
        for name, loss in losses.items():
            self._check(name, step, loss)
        for name, loss in losses.items():
            self._steps[name].append(float(step))
            self._losses[name].append(float(loss))
        return tuple(event for name in losses for event in self._look(name))

    def _check(self, name: str, step: float, loss: float) -> None:
        if not isinstance(loss, Real) or not math.isfinite(loss):
            raise AttangentError(f"the loss of {name} at step {step} is {loss}, expected a finite number")
        last = self._steps[name][-1] if self._steps[name] else -math.inf
        if not isinstance(step, Real) or not math.isfinite(step) or step <= last:
            raise AttangentError(f"step {step} of {name} comes after step {last}, expected rising steps")

    def _look(self, name: str) -> list[Event]:
        """Examine a group if it has grown enough, and return what was not reported before."""
        counted = sum(step >= self.warmup for step in self._steps[name])
        if counted < self._next_look[name]:
            return []
        self._next_look[name] = math.ceil(_GROWTH * counted)
        group = self._examined(name, self.false_alarms / _LOOKS)
        return self._new(name, [event for stage in group.stages for event in _events(stage)])

    def _new(self, name: str, events: list[Event]) -> list[Event]:
        # By their number and not by their step: a later examination may date an old event differently.
        fresh = []
        for kind in ("onset", "completion"):
            reported = [event for event in self._reported[name] if event.kind == kind]
            fresh += [event for event in events if event.kind == kind][len(reported) :]
        self._reported[name] += fresh
        return sorted(fresh, key=lambda event: event.step)

    def _examined(self, name: str, false_alarms: float) -> Group:
        steps = self._steps[name]
        first = sum(step < self.warmup for step in steps)
        return examine(name, steps[first:], self._losses[name][first:], false_alarms, self.least)

    @property
    def findings(self) -> Findings:
        """Stages, order, table and summary of all readings up to now."""
        count = sum(map(len, self._steps.values()))
        if self._cached is None or self._cached[0] != count:
            groups = tuple(self._examined(name, self.false_alarms) for name in self._steps)
            self._cached = count, Findings(groups)
        return self._cached[1]

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of all groups by onset."""
        return self.findings.stages

    @property
    def order(self) -> tuple[str, ...]:
        """The groups that fell, by the step at which they begin; `findings.order` adds probabilities."""
        return self.findings.order.names

    @property
    def readings(self) -> pd.DataFrame:
        """All readings: group, step, loss."""
        frames = [
            pd.DataFrame({"group": name, "step": steps, "loss": self._losses[name]})
            for name, steps in self._steps.items()
        ]
        return pd.concat(frames, ignore_index=True)

    def summary(self) -> str:
        """Describe every stage, and the order of the groups.

        Returns:
            Lines of text.
        """
        return self.findings.summary()


def _events(stage: Stage) -> list[Event]:
    onset = Event(stage.name, "onset", stage.onset)
    if stage.completion is None:
        return [onset]
    return [onset, Event(stage.name, "completion", stage.completion)]


def stage_callback(
    detector: StageDetector,
    losses: "Callable[[nn.Module], Mapping[str, float]]",
    every: int = 50,
    plot: str | PathLike[str] | None = None,
    say: Callable[[str], None] = print,
) -> "TrainerCallback":
    """Return a callback for `transformers.Trainer(callbacks=[...])` that feeds a detector.

    Onsets and completions are printed when they are found, and a summary at the end.

    Args:
        detector: The detector to update.
        losses: Returns the loss of each group of a model; called in eval mode without gradients.
        every: Steps between readings.
        plot: File for a figure at the end of training (.png, .svg or .pdf).
        say: Prints one line.

    Returns:
        The callback.

    Raises:
        AttangentError: If `every` is below 1 or `plot` has another ending.

    Example:
        >>> callback = stage_callback(StageDetector(["all"]), lambda model: {"all": 1.0}, every=100)
    """
    check_size("every", every)
    if plot is not None:
        check_picture(plot)
    from transformers import TrainerCallback

    class StageCallback(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **values: Any) -> None:
            read(state, values["model"])

        def on_step_end(self, args: Any, state: Any, control: Any, **values: Any) -> None:
            if state.global_step % every == 0:
                read(state, values["model"])

        def on_train_end(self, args: Any, state: Any, control: Any, **values: Any) -> None:
            if state.is_world_process_zero:
                say(detector.summary())
                if plot is not None:
                    detector.plot(plot)

    def read(state: Any, model: "nn.Module") -> None:
        with eval_mode(model), torch.no_grad():
            values = losses(model)
        for event in detector.update(state.global_step, values):
            if state.is_world_process_zero:
                say(str(event))

    return StageCallback()
