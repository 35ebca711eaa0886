"""A plan beside the run that followed it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attangent._errors import AttangentError
from attangent._settings import read_json
from attangent.tuning.planning.plan import Plan, PlannedRun


@dataclass(frozen=True)
class Compared:
    """One figure as it was planned and as it came."""

    name: str
    planned: float
    real: float

    @property
    def off(self) -> float:
        """How far the plan was off: relative for losses, seconds and memory, absolute for scores."""
        if self.name in ("accuracy", "r2"):
            return self.planned - self.real
        return self.planned / self.real - 1 if self.real else 0.0


@dataclass(frozen=True)
class Checked:
    """A finished run beside what was expected of it; `inside`: the score is where the interval said."""

    folder: Path
    run: PlannedRun
    figures: tuple[Compared, ...]
    inside: bool


def check_runs(plan: Plan, folder: Path) -> list[Checked]:
    """Every finished seed below a folder of `tune` beside the plan."""
    seeds = sorted(path.parent for path in folder.glob("**/metrics.json")) if folder.is_dir() else []
    if not seeds:
        raise AttangentError(
            f"{folder} holds no finished run, expected a folder that `attangent tune` wrote (metrics.json)"
        )
    return [_checked(plan, place) for place in seeds]


def _checked(plan: Plan, place: Path) -> Checked:
    settings, metrics = read_json(place / "settings.json"), read_json(place / "metrics.json")
    try:
        rate, epochs = metrics["learning_rate"], settings["training"]["epochs"]
        run = plan.run_like(metrics["method"], rate, epochs)
        same = settings["digests"] == list(plan.asked["digests"]) and settings["model"] == plan.asked["model"]
    except (KeyError, TypeError) as error:
        raise AttangentError(f"{place} is not a whole run: {error!r} is not there") from None
    if run is None or not same:
        what = f"{metrics['method']} at rate {rate:g} for {epochs:g} epochs"
        raise AttangentError(
            f"{place} is a run of {what} on its files, which the plan has not looked at; check the run that "
            "followed it, or plan with --rates and --epochs of this one"
        )
    figures = _figures(plan, run, metrics)
    score = next(one.real for one in figures if one.name == plan.measure)
    return Checked(place, run, figures, run.low <= score <= run.high)


def _figures(plan: Plan, run: PlannedRun, metrics: dict[str, Any]) -> tuple[Compared, ...]:
    pairs = {
        "training loss": (run.train_loss, "train_loss"),
        "loss on held-out rows": (run.eval_loss, "eval_loss"),
        plan.measure: (run.score, f"eval_{plan.measure}"),
        "seconds": (run.seconds, "seconds"),
        "megabytes": (run.megabytes, "peak_megabytes"),
    }
    return tuple(
        Compared(name, planned, float(metrics[key]))
        for name, (planned, key) in pairs.items()
        if key in metrics
    )
