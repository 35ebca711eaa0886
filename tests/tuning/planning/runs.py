"""Planned runs made up by hand."""

from attangent.tuning.planning.plan import PlannedRun


def planned(method="ntk", rate=1e-3, score=0.7, half=0.02, **own):
    """A run with this score and half the width of its interval."""
    run = PlannedRun(
        *(method, rate, 4.0, 10, 1.1, (1.2, 1.0), 0.5, score, score - half, score + half),
        *(0.1, True, True, 0, 5.0, 100.0),
    )
    return PlannedRun(**{**vars(run), **own})
