"""Every method by name."""

from attangent.tuning.methods.any_peft import AnyPeft
from attangent.tuning.methods.auto import Auto
from attangent.tuning.methods.full import Full
from attangent.tuning.methods.head import Head, Probe
from attangent.tuning.methods.lora import Lora
from attangent.tuning.methods.ntk import Ntk, NtkAndLora
from attangent.tuning.methods.prefix import PrefixTokens
from attangent.tuning.methods.technique import Technique

TECHNIQUES: dict[str, Technique] = {
    technique.name: technique
    for technique in (
        Ntk(),
        Lora(),
        PrefixTokens(),
        Head(),
        Probe(),
        Full(),
        NtkAndLora(),
        AnyPeft(),
        Auto(),
    )
}
