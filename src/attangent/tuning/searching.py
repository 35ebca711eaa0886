"""The rate and the length of training, by rows kept apart; then training on all rows with what was chosen.

The method's own rate and the whole run are the usual way; anything else has to be clearly better (see
`stopping`). Other rates are trained for half of the run, which is as far as one that is too large looks good.
The one that is clearly better there, if any, goes on to the end beside the method's own. A rate that goes on
does so from its checkpoint, so that its run is the one that this rate alone would have made.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from attangent.tuning.checkpoints import put_tensors, trained_tensors
from attangent.tuning.stopping import PARTS, Record, clearly_better, guard, step_of_part
from attangent.tuning.training import Job, Training, row_errors, run_trainer, untrained

FACTORS = (1.0, 4.0, 1 / 4)
"""The rates that are tried, relative to the method's own, which comes first."""
HALF = PARTS // 2


def rates_around(rate: float) -> tuple[float, ...]:
    """The rates that are tried where the method's own is `rate`.

    >>> [f"{tried:g}" for tried in rates_around(0.004)]
    ['0.004', '0.016', '0.001']
    """
    return tuple(float(f"{factor * rate:.3g}") for factor in FACTORS)


@dataclass(frozen=True)
class Choice:
    """A rate, the share of a run to train for, what rows kept apart then get wrong, and how it was found."""

    rate: float
    share: float
    errors: list[float]
    numbers: dict[str, Any]


class Search:
    """A job that several rates try from the same start, scored on the same rows kept apart."""

    def __init__(self, job: Job, training: Training, kept: Any):
        self.job, self.training, self.kept = job, training, kept
        self.start = trained_tensors(job.model)
        self.records: dict[float, Record] = {}
        self.seconds = 0.0

    def run(self, rates: Sequence[float]) -> Choice:
        """Which rate to train at and how long; the model is left at its start. The usual rate comes first."""
        usual = rates[0]
        for rate in rates if len(rates) > 1 else ():
            self._advance(rate, HALF)
        other = self._best_at_half(usual, rates[1:])
        for rate in dict.fromkeys((usual, other)):
            self._advance(rate, PARTS)
        chosen = other if clearly_better(self._kept(other), self._kept(usual)) else usual
        put_tensors(self.job.model, self.start)
        return self._choice(chosen)

    def _choice(self, rate: float) -> Choice:
        record = self.records[rate]
        numbers = {
            "learning_rate": rate,
            "trained_share": record.kept / record.steps,
            "validation_error": record.mean(record.kept),
            "validation_error_at_start": record.mean(0),
            "rates": {f"{tried:g}": own.mean(own.kept) for tried, own in self.records.items()},
        }
        return Choice(rate, numbers["trained_share"], record.errors[record.kept], numbers)

    def _best_at_half(self, usual: float, others: Sequence[float]) -> float:
        """The best of the rates that are clearly better than the usual one after half of the run, or that."""
        ahead = [rate for rate in others if clearly_better(self._at_half(rate), self._at_half(usual))]
        return min(ahead, key=lambda rate: math.fsum(self._at_half(rate)), default=usual)

    def _at_half(self, rate: float) -> list[float]:
        """The errors after half of the run; those at its end where it ended before."""
        record = self.records[rate]
        return record.errors[min(step_of_part(HALF, record.steps), record.last)]

    def _kept(self, rate: float) -> list[float]:
        record = self.records[rate]
        return record.errors[record.kept]

    def _advance(self, rate: float, part: int) -> None:
        """Train at this rate until so many parts of the run are done, unless they are or it is over."""
        job, record = self._at(rate)
        if record.reached(part) or (record.steps and record.is_over(record.last)):
            return
        own = replace(job, guard=lambda trainer: guard(record, lambda: self._errors(trainer), part))
        self.seconds += run_trainer(own, self.training)[1]["seconds"]

    def _at(self, rate: float) -> tuple[Job, Record]:
        """The job at this rate with the model back at its start, and its record."""
        put_tensors(self.job.model, self.start)
        job = replace(self.job, rate=rate, folder=self.job.folder / f"rate-{rate:g}")
        if rate not in self.records:
            self.records[rate] = Record(job.folder)
            self.records[rate].add(0, self._errors_at_start)
        return job, self.records[rate]

    @cached_property
    def _errors_at_start(self) -> list[float]:
        return self._errors(untrained(self.job, self.training)[0])

    def _errors(self, trainer: Any) -> list[float]:
        return row_errors(trainer, self.kept, self.job.kind)
