"""What is wanted of a compression: a goal in answers, a bound on the divergence, or a plain size."""

from dataclasses import dataclass

from attangent._core.checks import check_between, check_size
from attangent._core.errors import AttangentError
from attangent.compression.compressor import Compressor
from attangent.compression.distilling.distill import Distillation
from attangent.compression.methods import DEFAULT, check_method, method_named
from attangent.compression.size_search import Goal, Outcome, reach

DEFAULT_SIZE = 64


@dataclass(frozen=True)
class Order:
    """keep: the part of the answers to keep, 0 for none in particular; size and seconds: the most allowed.

    With keep 0 the size is taken as it is. tolerance: the largest KL ratio, in the place of a goal in
    answers. distill: steps of training, in a goal at sizes whose closed form comes near it; None for as many
    as the text needs in a goal, and none elsewhere. total: the most
    tokens for each head that all pieces of a long prompt may have together.
    """

    keep: float = 0.95
    size: int | None = None
    seconds: float | None = None
    method: str = DEFAULT
    tolerance: float | None = None
    distill: int | None = None
    total: int | None = None

    def check(self) -> None:
        """Refuse what cannot be carried out, before any work."""
        check_method(self.method, check_size("distill", self.distill or 0, least=0))
        check_between("keep", self.keep, 0, 1)
        method_named(self.method).check_size(check_size("size", self.size or DEFAULT_SIZE))
        if self.total is not None:
            method_named(self.method).check_size(check_size("total", self.total))
        if self.tolerance is not None and not 0 < self.tolerance < 1:
            raise AttangentError(f"tolerance is {self.tolerance!r}, expected a number between 0 and 1")
        Goal(self.keep, self.size, self.seconds, self.distill)

    def carry_out(self, job: Compressor) -> Outcome:
        """The compressed prompt, with what was tried on the way where there was a goal in answers."""
        goal = self.goal()
        if goal is not None:
            return reach(job, goal, self.method)
        if self.tolerance is not None:
            found = job.fit_to(self.tolerance, self.method)
        else:
            found = job.fit(self.plain_size, self.method)
        if self.distill:
            found = job.distill(found, Distillation(self.distill, seed=job.seed))
        return Outcome(found, True)

    @property
    def plain_size(self) -> int:
        """The size where there is no goal."""
        size = self.size or DEFAULT_SIZE
        return size if self.total is None else min(size, self.total)

    def goal(self) -> Goal | None:
        """The goal in answers; None where the size or a tolerance decides."""
        if self.tolerance is None and self.keep and method_named(self.method).sized:
            caps = [cap for cap in (self.size, self.total) if cap is not None]
            return Goal(self.keep, min(caps, default=None), self.seconds, self.distill)
        return None
