"""The learning rate by successive halving, and the length of training by early stopping, on rows kept apart.

Four rates are trained for a quarter of the run, by which the warm-up is over. The better two go on to three
eighths of it, and the better of those to the end or to where its loss stops falling. A rate that goes on does
so from its checkpoint, so that the last run is the one that this rate alone would have made. All of it takes
at most 1.9 runs on the rows that are left to train on, four fifths of all.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from attangent.tuning.checkpoints import last_whole_checkpoint, put_tensors, trained_tensors
from attangent.tuning.stopping import PARTS, Record, guard, step_of_part
from attangent.tuning.training import Job, Training, check_finite, run_trainer, score, taken_up, untrained

FACTORS = (1 / 3, 1.0, 3.0, 9.0)
"""The rates that are tried, relative to the method's own."""
RUNGS = (2, 3)
"""After how many parts of a run the worse half of the rates is given up."""


def rates_around(rate: float) -> tuple[float, ...]:
    """The rates that are tried where the method's own is `rate`.

    >>> [f"{tried:g}" for tried in rates_around(0.003)]
    ['0.001', '0.003', '0.009', '0.027']
    """
    return tuple(float(f"{factor * rate:.3g}") for factor in FACTORS)


class Search:
    """A job that several rates try from the same start, scored on the same rows kept apart."""

    def __init__(self, job: Job, training: Training, kept: Any):
        self.job, self.training, self.kept = job, training, kept
        self.start = trained_tensors(job.model)
        self.records: dict[float, Record] = {}
        self.seconds = 0.0

    def run(self, rates: Sequence[float]) -> tuple[Any, dict[str, Any]]:
        """Train at the best rate and give the model the weights of least loss; trainer and numbers."""
        alive = list(rates)
        for rung in RUNGS if len(alive) > 1 else ():
            for rate in alive:
                self._advance(rate, rung)
            alive = sorted(alive, key=lambda rate: self._rank(rate, rung))[: (len(alive) + 1) // 2]
        trainer, numbers = self._finished(alive[0])
        record = self.records[alive[0]]
        record.put_best(self.job.model, self.start)
        return trainer, {
            **numbers,
            "seconds": self.seconds,
            "learning_rate": alive[0],
            "kept_step": record.best,
            "validation_loss": record.losses[record.best],
            "validation_loss_at_start": record.losses[0],
            "rates": {f"{rate:g}": own.losses[own.last] for rate, own in self.records.items()},
        }

    def _rank(self, rate: float, part: int) -> tuple[float, float]:
        """By the loss there; of rates alike in that, the one nearest to the method's own comes first."""
        return self._loss_at(rate, part), abs(math.log(rate / self.job.rate))

    def _loss_at(self, rate: float, part: int) -> float:
        """The loss after so many parts; that at the end of a run which ended before."""
        record = self.records[rate]
        return record.losses[min(step_of_part(part, record.steps), record.last)]

    def _advance(self, rate: float, part: int) -> None:
        """Train at this rate until so many parts of the run are done, unless they are."""
        job, record = self._at(rate)
        if not record.reached(part) and not (record.steps and record.is_over(record.last)):
            self._train(job, record, part)

    def _finished(self, rate: float) -> tuple[Any, dict[str, float]]:
        """Trainer and numbers of the run at this rate, trained to its end."""
        job, record = self._at(rate)
        checkpoint = last_whole_checkpoint(job.folder)
        done = record.steps and record.is_over(record.last)
        if done and checkpoint is not None and checkpoint.name == f"checkpoint-{record.last}":
            return taken_up(job, self.training, checkpoint)
        return self._train(job, record, PARTS)

    def _train(self, job: Job, record: Record, part: int) -> tuple[Any, dict[str, float]]:
        own = replace(job, guard=lambda trainer: guard(record, lambda: self._loss(trainer), part))
        trainer, numbers = run_trainer(own, self.training)
        self.seconds += numbers["seconds"]
        if part == PARTS:
            check_finite(numbers["train_loss"], job.rate)
        return trainer, numbers

    def _at(self, rate: float) -> tuple[Job, Record]:
        """The job at this rate with the model back at its start, and its record."""
        put_tensors(self.job.model, self.start)
        job = replace(self.job, rate=rate, folder=self.job.folder / f"rate-{rate:g}")
        if rate not in self.records:
            self.records[rate] = Record(job.folder)
            self.records[rate].add(0, self._loss_at_start, job.model)
        return job, self.records[rate]

    @cached_property
    def _loss_at_start(self) -> float:
        return self._loss(untrained(self.job, self.training)[0])

    def _loss(self, trainer: Any) -> float:
        return score(trainer, self.kept, self.job.kind)["loss"]
