"""Which of the planned runs to take: `tune`'s own, unless another one is clearly better."""

from collections.abc import Sequence

from attangent.tuning.planning.certainty import FAR
from attangent.tuning.planning.plan import PlannedRun

_CLEARLY, _CLEARLY_WHERE_FAR = 0.015, 0.03
"""The gain in score from which another run of the same method is taken in place of `tune`'s own; the second
where that one is far from its tangent, so that its own score is hardly known."""


def own_choices(runs: Sequence[PlannedRun]) -> list[int]:
    """The run to take of each method, in the order of the methods.

    That is the run `tune` makes by default, unless another promises clearly more: of those the one of the
    highest score, and of equal ones the one closest to its tangent. Without a default among the runs it is
    the one whose interval has the highest lower end.
    """
    methods = dict.fromkeys(run.method for run in runs)
    return [_own([i for i, run in enumerate(runs) if run.method == name], runs) for name in methods]


def _own(places: list[int], runs: Sequence[PlannedRun]) -> int:
    usual = [i for i in places if runs[i].default]
    if not usual:
        return max(places, key=lambda i: (runs[i].low, -runs[i].eval_loss))
    best = max(places, key=lambda i: (round(runs[i].score, 4), -runs[i].departure))
    own = runs[usual[0]]
    gain = _CLEARLY if own.departure <= FAR else _CLEARLY_WHERE_FAR
    return best if runs[best].score > own.score + gain else usual[0]


def best_run(runs: Sequence[PlannedRun]) -> int:
    """The run to take of all methods.

    Where some were made, it is the best of those and of the ones whose score is foretold exactly. Else it is
    the first method's, unless another's interval lies above its own: predictions are fair to runs of one
    method, not to methods, since what a tangent leaves out is mostly gain.
    """
    own = own_choices(runs)
    if any(runs[i].made is not None for i in own):
        known = [i for i in own if runs[i].made is not None or runs[i].departure == 0]
        return max(known, key=lambda i: runs[i].promise)
    best = max(own, key=lambda i: runs[i].low)
    return best if runs[best].low > runs[own[0]].high else own[0]


def to_make(runs: Sequence[PlannedRun], most: int) -> list[int]:
    """Which runs are worth making before one is taken: each method's own choice, but for exact ones.

    With one method alone there is nothing to decide.
    """
    own = own_choices(runs)
    return [i for i in own if runs[i].departure > 0][:most] if len(own) > 1 else []
