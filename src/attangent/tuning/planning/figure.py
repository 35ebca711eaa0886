"""A picture of a plan: the losses that are expected, and the score at each rate."""

from os import PathLike
from typing import TYPE_CHECKING, Any

from attangent._plots import COLOURS, FAINT, finished, in_style
from attangent._plots import panels as new_panels
from attangent.tuning.planning.plan import Plan, PlannedRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@in_style
def plot_plan(plan: Plan, path: str | PathLike[str] | None = None) -> "Figure":
    """Curves of the training loss for each method on the left, scores over rates on the right."""
    methods = list(dict.fromkeys(run.method for run in plan.runs))
    figure, panels = new_panels(len(methods) + 1, across=len(methods) + 1, size=(3.8, 3.4))
    longest = max(run.epochs for run in plan.runs)
    for place, method in enumerate(methods):
        own = [run for run in plan.runs if run.method == method and run.epochs == longest]
        _curves(panels[place], own, plan.choice, COLOURS[place % len(COLOURS)])
        panels[place].set_title(f"{method}: training loss")
        _scores(panels[-1], own, COLOURS[place % len(COLOURS)])
    panels[-1].axhline(plan.start, color=FAINT, lw=0.8, ls=":", label="before training")
    panels[-1].plot(plan.choice.learning_rate, plan.choice.promise, "*", color="black", ms=11, label="chosen")
    panels[-1].set_title(f"{plan.measure} on rows to score on")
    panels[-1].set_xscale("log")
    panels[-1].set_xlabel("learning rate")
    panels[-1].legend()
    return finished(figure, path)


def _curves(panel: Any, runs: list[PlannedRun], chosen: PlannedRun, colour: str) -> None:
    """The larger the rate the darker the line; dotted where the figures cannot be believed."""
    for place, run in enumerate(sorted(runs, key=lambda run: run.learning_rate)):
        parts = len(run.curve)
        steps = [run.steps * (part + 0.5) / parts for part in range(parts)]
        panel.plot(
            steps,
            run.curve,
            color=colour,
            alpha=0.25 + 0.75 * (place + 1) / len(runs),
            lw=2.4 if run == chosen else 1.1,
            ls="-" if run.loss_sure else ":",
            label=f"{run.learning_rate:.2g}",
        )
    panel.set_yscale("log")
    panel.set_xlabel("step")
    panel.legend(frameon=False, fontsize=7, ncols=2)


def _scores(panel: Any, runs: list[PlannedRun], colour: str) -> None:
    runs = sorted(runs, key=lambda run: run.learning_rate)
    rates = [run.learning_rate for run in runs]
    panel.fill_between(rates, [run.low for run in runs], [run.high for run in runs], color=colour, alpha=0.12)
    panel.plot(rates, [run.score for run in runs], "o-", ms=3.5, lw=1.2, color=colour, label=runs[0].method)
