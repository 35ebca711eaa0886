"""All tuning methods by name. A new one is an entry here, or is added by an installed package."""

from typing import Any

from attangent._core.plugins import method_of
from attangent.tuning.methods.ntk import Ntk, NtkAndLora
from attangent.tuning.methods.peft_methods import AnyPeft, Lora, PrefixTokens
from attangent.tuning.methods.technique import Full, Head, Probe, Technique

_ALL = (Ntk(), Lora(), PrefixTokens(), Head(), Probe(), Full(), NtkAndLora(), AnyPeft())
TECHNIQUES: dict[str, Technique] = {technique.name: technique for technique in _ALL}

GROUP = "attangent.tuning_methods"
"""Group of the entry points by which packages add methods."""


def technique_named(name: Any) -> Technique:
    """Return the method of this name, ours or one that an installed package adds."""
    return method_of(name, TECHNIQUES, GROUP, Technique)
