"""What the tests of exact proofs share: every step of every proof of a module holds."""

import inspect
from types import ModuleType

from attangent.audit.proofs import Proof, checked


def proofs_of(module: ModuleType) -> list:
    """The functions of a module that return a proof."""
    functions = inspect.getmembers(module, inspect.isfunction)
    return [
        function
        for _, function in functions
        if function.__module__ == module.__name__
        and inspect.signature(function, follow_wrapped=False).return_annotation in (Proof, "Proof")
    ]


def wrong_steps(proof) -> list[str]:
    """The formulas of the steps that do not hold."""
    return [step.formula for step in checked(proof).steps if not step.holds]
