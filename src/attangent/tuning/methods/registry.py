"""All tuning methods by name. A new method is a subclass of `Technique` and an entry here."""

from attangent.tuning.methods.ntk import Ntk, NtkAndLora
from attangent.tuning.methods.peft_methods import AnyPeft, Lora, PrefixTokens
from attangent.tuning.methods.technique import Full, Head, Probe, Technique

_ALL = (Ntk(), Lora(), PrefixTokens(), Head(), Probe(), Full(), NtkAndLora(), AnyPeft())
TECHNIQUES: dict[str, Technique] = {technique.name: technique for technique in _ALL}
