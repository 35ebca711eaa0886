"""How far a planned figure can be believed: the interval of a score, and which figures are marked."""

import math

FAR = 0.5
"""The departure beyond which a tangent does not tell one rate from another."""
_LAZY, _LOSS_GAP = 0.25, 0.07
_HALF_WIDTH = 0.025
_LEAST, _OPEN, _FITTED = 0.01, 0.06, 0.25
"""What scores were off by on the tasks that rules were made on: see `usual_error`."""


def usual_error(departure: float, fitted: bool) -> float:
    """What a planned score is off by at most in nine of ten runs: a + b sqrt(departure), at most a + b.

    a is one point. b is 6 points, and 25 where all rows are fitted from the start, since then accidents
    decide which way the features go. Both were read off runs of seven tasks (docs/planning.md).
    """
    return _LEAST + (_FITTED if fitted else _OPEN) * math.sqrt(min(departure, 1.0))


def interval(
    score: float, variance: float, gap: float, rows: int, error: float, values: bool = False
) -> tuple[float, float]:
    """Where the score is with 90 %: over orders of the rows, and over what such predictions are off by.

    variance: over orders. gap: between the tangent's score and the model's own, half of which counts. rows:
    the score may be off by half a row. error: as `usual_error` gives it.
    """
    half = math.sqrt(1.645**2 * (variance + (gap / 2) ** 2 + (0.5 / rows) ** 2) + error**2)
    return (-math.inf if values else 0.0) if score - half < 0 else score - half, min(score + half, 1.0)


def is_sure_of_loss(departure: float, gap: float) -> bool:
    """Whether the training loss comes within 5 %, as far as can be said.

    The gap, relative, lies between the tangent's loss and the model's own, the middle of which is expected.
    It may be small by chance where the model is far from its tangent.
    """
    return departure <= _LAZY and gap <= _LOSS_GAP


def is_sure_of_score(score: float, low: float) -> bool:
    """Whether the score comes within 2 points most of the time: an interval of 90 % is 5 points wide then."""
    return score - low <= _HALF_WIDTH
