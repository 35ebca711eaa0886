"""What is done around the training of a method, the same for every method."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from attangent._core.checks import check_choice
from attangent.tuning.methods import Method, is_head

Start = Literal["closed-form", "cross-validated", "random"]
Validation = Literal["none", "random", "unlike"]


@dataclass(frozen=True)
class Recipe:
    """How a run starts and how it ends.

    start: the classifier's first weights: `cross-validated` fits them to the frozen model's features with the
        penalty that is best for the classifier alone; `closed-form` does so with a penalty that leaves an
        error to learn from, unless the classifier is sure already; `random` draws them.
    validation: `none` trains on all rows and keeps everything that was learnt. `random` keeps a fifth of
        each class apart and chooses on it how much to keep; `unlike` keeps rows apart that are unlike the
        others (where the classifier reads one vector for each row, else as `random`). Where nothing is kept,
        the classifier is fitted to all rows.
    search: rate and length of training are chosen by rows kept apart, `random` ones where none are named, and
        used on all rows; see `attangent.tuning.searching`.
    """

    start: Start = "closed-form"
    validation: Validation = "none"
    search: bool = False

    def __post_init__(self) -> None:
        check_choice("start", self.start, get_args(Start))
        check_choice("validation", self.validation, get_args(Validation))
        if self.search and self.validation == "none":
            object.__setattr__(self, "validation", "random")

    def with_validation(self) -> "Recipe":
        """The same with rows kept apart, on which methods can be compared."""
        return self if self.validation != "none" else replace(self, validation="random")

    def rate_of(self, method: Method, sure: bool = True) -> float:
        """The rate that was given; else the method's own, less of it where the start is `sure`, or more."""
        if method.learning_rate is not None or self.start == "random":
            return method.rate
        return (_GENTLE if sure else method.technique.bold) * method.rate

    def scale_of(self, method: Method, closed: bool) -> Callable[[str], float]:
        """The rate of a parameter, by its name, relative to the method's or to the classifier's own.

        A classifier that starts in closed form (`closed`: it has one) is near its end and takes small steps.
        """
        own = method.technique.rate_scale
        if not closed or self.start == "random":
            return own
        return lambda name: own(name) * (_NEAR if is_head(name) else 1.0)


_GENTLE = 0.25
_NEAR = 0.2
PLAIN = Recipe("random", "none")
"""Training and nothing else."""
