"""Exact arguments: steps of mathematics whose truth the code computes with symbols, fractions or integers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from attangent._core.errors import AttangentError


@dataclass(frozen=True)
class Step:
    """One step of an argument: a sentence, its formula, and whether exact arithmetic confirms it.

    Args:
        text: The step in words.
        formula: The formula in LaTeX, without dollar signs.
        holds: Whether the formula is true, computed without rounding.

    Example:
        >>> from fractions import Fraction
        >>> Step("Two thirds exceed one half.", r"\\frac23 > \\frac12", Fraction(2, 3) > Fraction(1, 2)).holds
        True
    """

    text: str
    formula: str
    holds: bool

    def __post_init__(self) -> None:
        if not (isinstance(self.text, str) and isinstance(self.formula, str) and (self.text or self.formula)):
            raise AttangentError("a step of a proof needs a text or a formula, both strings")
        if not isinstance(self.holds, bool):
            raise AttangentError(
                f"the step {self.text!r} must compute True or False (got {type(self.holds).__name__}); "
                "convert a symbolic truth value with bool()"
            )


@dataclass(frozen=True)
class Proof:
    """An argument that shows why a claim fails, or why a repaired statement is right.

    Args:
        steps: The steps, in order.
        part: The part of the statement that it is about; by default the whole statement.

    Example:
        >>> Proof((Step("One is less than two.", "1 < 2", 1 < 2),)).part
        ''
    """

    steps: tuple[Step, ...]
    part: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(self.steps))
        if not self.steps or not all(isinstance(step, Step) for step in self.steps):
            raise AttangentError("a proof needs at least one step")


class ProofFailed(AttangentError):
    """A step of a proof does not hold, so the claim has no verdict."""


@cache
def checked(proof: Callable[[], Proof]) -> Proof:
    """Return the proof, evaluated once per process; raise ProofFailed if a step does not hold."""
    argument = proof()
    if not isinstance(argument, Proof):
        raise TypeError(f"{proof.__name__} returned {type(argument).__name__}; expected a Proof")
    wrong = [step for step in argument.steps if not step.holds]
    if wrong:
        raise ProofFailed(
            f"step {argument.steps.index(wrong[0]) + 1} of {proof.__name__} does not hold: "
            f"{wrong[0].text} {wrong[0].formula}; correct the argument or drop it"
        )
    return argument
