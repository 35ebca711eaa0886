"""Every method by name."""

from attangent.tuning.methods.full import Full
from attangent.tuning.methods.head import Head
from attangent.tuning.methods.lora import Lora
from attangent.tuning.methods.ntk import Ntk, NtkAndLora
from attangent.tuning.methods.prefix import PrefixTokens
from attangent.tuning.methods.technique import Technique

TECHNIQUES: dict[str, Technique] = {
    technique.name: technique for technique in (Ntk(), Lora(), PrefixTokens(), Head(), Full(), NtkAndLora())
}
