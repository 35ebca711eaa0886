"""The smallest size, and the least work, that keeps enough of the answers."""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from attangent._core.checks import check_between, check_positive, check_size
from attangent._core.errors import AttangentError
from attangent.compression.distilling.distill import Distillation
from attangent.compression.methods import DEFAULT, method_named
from attangent.compression.result import CompressedPrompt

if TYPE_CHECKING:
    from attangent.compression.compressor import Compressor

_FIRST_TIMES = 8
"""A prompt is first made about so many times smaller."""
_SIZES = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
_WORTH_DISTILLING = 0.6
"""Distillation is tried where the closed form keeps at least this part of the answers."""
_PROMISING = 0.6
"""A size is fitted where its tokens, as they are, keep at least this part of the answers that are wanted."""
_FEWEST_QUESTIONS = 5


@dataclass(frozen=True)
class Goal:
    """Keep this part of the answers, with at most so many tokens for each head, in at most so many seconds.

    least: no size below this is tried unless it is the largest allowed;
    steps: how many steps of distillation are tried where the closed form comes near; 0 for none, None for as
    many as the text needs.
    """

    keep: float = 0.95
    size: int | None = None
    seconds: float | None = None
    steps: int | None = None
    least: int = 1

    def __post_init__(self) -> None:
        check_between("keep", self.keep, 0, 1)
        check_size("least", self.least)
        check_size("steps", self.steps or 0, least=0)
        if self.size is not None:
            check_size("size", self.size)
        if self.seconds is not None:
            check_positive("seconds", self.seconds)


@dataclass(frozen=True)
class Attempt:
    """One size that was tried: how many of how many answers it kept.

    Where the prompt answers too few questions of its own, what counts is the share of next tokens that are
    the same as with the full prompt; `asked` is then 0.
    """

    size: int
    distilled: int
    kept: int
    asked: int
    share: float
    bytes: int
    seconds: float


@dataclass
class Outcome:
    """The compressed prompt that was chosen, whether it meets the goal, and all that was tried.

    unfitted: by size, the share of answers that its tokens keep before they are fitted.
    """

    found: CompressedPrompt
    met: bool
    attempts: list[Attempt] = field(default_factory=list)
    stopped: str = ""
    unfitted: dict[int, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "met": self.met,
            "stopped": self.stopped,
            "attempts": [asdict(attempt) for attempt in self.attempts],
            "unfitted": self.unfitted,
        }


def reach(job: "Compressor", goal: Goal, method: str = DEFAULT) -> Outcome:
    """The smallest of 16, 32, 64, ... tokens that keeps enough answers: by the closed form, else distilled.

    Before a size is fitted its tokens are asked as they are, which takes a few seconds: sizes that answer
    next to nothing are left out. The smallest promising size is tried first, or the one that makes the prompt
    about 8 times smaller where nothing can be said beforehand. From there sizes go down while they are
    enough, or up until they are. Where the caps of the goal come first, the attempt that kept most is
    returned, and why it ended.
    """
    if not method_named(method).sized:
        raise AttangentError(f"method {method!r} has no size to choose: use keep=0 with it")
    search, sizes = _Search(job, goal, method), _sizes(len(job.ids), goal.size, goal.least)
    first = search.first_place(sizes)
    if search.is_enough(sizes[first]):
        for size in reversed(sizes[:first]):
            if search.over or not search.is_promising(size) or not search.is_enough(size):
                break
    else:
        for size in sizes[first + 1 :]:
            if search.over or search.is_enough(size):
                break
    return search.outcome()


@dataclass
class _Search:
    """What has been tried, and the last that was enough."""

    job: "Compressor"
    goal: Goal
    method: str
    tried: list[tuple[Attempt, CompressedPrompt]] = field(default_factory=list)
    enough: CompressedPrompt | None = None
    started: float = field(default_factory=time.perf_counter)
    unfitted: dict[int, float] = field(default_factory=dict)

    def first_place(self, sizes: Sequence[int]) -> int:
        """Where in the list of sizes to begin."""
        wanted = math.log(len(self.job.ids) / _FIRST_TIMES)
        place = min(range(len(sizes)), key=lambda place: abs(math.log(sizes[place]) - wanted))
        if not self.can_foresee:
            return place
        while place + 1 < len(sizes) and not self.is_promising(sizes[place]):
            place += 1
        while place > 0 and self.is_promising(sizes[place - 1]):
            place -= 1
        return place

    @property
    def can_foresee(self) -> bool:
        """Whether tokens can be asked before they are fitted, and there are enough questions."""
        return method_named(self.method).foreseen and len(self.job.quiz) >= _FEWEST_QUESTIONS

    def is_promising(self, size: int) -> bool:
        """Whether the tokens of this size, as they are, answer something; True where it cannot be said."""
        if size not in self.unfitted:
            rough = self.job.unfitted(size, self.method) if self.can_foresee else None
            if rough is None:
                return True
            answers = self.job.quiz_answers(rough)
            self.unfitted[size] = sum(not answer.lost for answer in answers) / max(1, len(answers))
        return self.unfitted[size] >= _PROMISING * self.goal.keep

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    @property
    def over(self) -> bool:
        return self.goal.seconds is not None and self.seconds > self.goal.seconds

    def is_enough(self, size: int) -> bool:
        """Whether this size keeps enough: by the closed form, then distilled where that is worth the time."""
        found = self.job.fit(size, self.method)
        if self._keeps(found):
            return True
        worth = self.tried[-1][0].share >= _WORTH_DISTILLING * self.goal.keep and not found.exact
        steps = self.goal.steps
        if self.over or steps == 0 or not worth or not method_named(self.method).distillable:
            return False
        plan = None if steps is None else Distillation(steps, seed=self.job.seed)
        return self._keeps(self.job.distill(found, plan))

    def _keeps(self, found: CompressedPrompt) -> bool:
        attempt, keep = _measured(self.job, found, self.seconds), self.goal.keep
        self.tried.append((attempt, found))
        if keeps_enough(attempt.kept, attempt.asked, keep) if attempt.asked else attempt.share >= keep:
            self.enough = found
        return self.enough is found

    def outcome(self) -> Outcome:
        attempts = [attempt for attempt, _ in self.tried]
        if self.enough is not None:
            return Outcome(self.enough, True, attempts, unfitted=self.unfitted)
        best = max(self.tried, key=lambda pair: (pair[0].share, -pair[0].size))[1]
        allowed = f"{self.goal.size} tokens for each head are the most allowed"
        stopped = f"{self.goal.seconds:g} seconds are over" if self.over else allowed
        return Outcome(best, False, attempts, stopped, self.unfitted)


def _sizes(tokens: int, most: int | None, least: int = 1) -> list[int]:
    """16, 32, 64, ... from `least` to two thirds of the prompt and to the cap, which is the last one itself.

    Without a cap the last is the whole prompt, which keeps everything: more than that is not worth a fit.
    """
    last = tokens if most is None else min(most, tokens)
    return [*(size for size in _SIZES if least <= size < last and 3 * size <= 2 * tokens), last]


def keeps_enough(kept: int, asked: int, keep: float) -> bool:
    """Whether enough answers were kept, as far as so many questions can tell.

    One standard error is granted: of 38 questions a prompt that keeps 95 % answers 36.1 +- 1.3, so 35 are
    enough. Without it a size that does what is wanted would be refused every second time.
    """
    return kept >= keep * asked - math.sqrt(keep * (1 - keep) * asked)


def _measured(job: "Compressor", found: CompressedPrompt, seconds: float) -> Attempt:
    answers = job.quiz_answers(found)
    kept = sum(not answer.lost for answer in answers)
    asked = len(answers) if len(answers) >= _FEWEST_QUESTIONS else 0
    share = kept / asked if asked else job.fidelity(found).agreement["compressed"]
    return Attempt(
        found.size, found.distilled, kept if asked else 0, asked, share, found.number_of_bytes, seconds
    )
