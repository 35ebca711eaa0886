"""Any config of peft's, named in a file: rsLoRA, DoRA, IA3, VeRA, layer norms and whatever peft adds."""

import inspect
from typing import TYPE_CHECKING, Any

from attangent._core.errors import AttangentError
from attangent.tuning.methods.from_peft import FromPeft, peft_task
from attangent.tuning.methods.lora import lora_targets
from attangent.tuning.methods.technique import Site

if TYPE_CHECKING:
    from attangent.tuning.methods.settings import Method


class AnyPeft(FromPeft):
    """The config with the settings of `Method.peft`: `peft_type` and the config's own."""

    name = "peft"
    bold = 2.0

    def default_rate(self, method: "Method") -> float:
        return 2e-3

    def config(self, model: Any, method: "Method", site: Site) -> Any:
        from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING

        settings = dict(method.peft)
        known = {
            str(getattr(kind, "value", kind)): made for kind, made in PEFT_TYPE_TO_CONFIG_MAPPING.items()
        }
        kind = settings.pop("peft_type", None)
        if kind not in known:
            raise AttangentError(
                f"the method peft has the peft_type {kind!r}, expected one of {', '.join(sorted(known))}"
            )
        taken = inspect.signature(known[kind]).parameters
        filled = {"task_type": peft_task(site.kind), "modules_to_save": [*site.classifier] or None}
        if kind not in ("LN_TUNING", "IA3"):
            filled["target_modules"] = lora_targets(model, method.top)
        filled = {name: value for name, value in filled.items() if name in taken}
        return known[kind](**{**filled, **settings})

    def added(self, model: Any, method: "Method", site: Site) -> Any:
        try:
            return super().added(model, method, site)
        except (TypeError, ValueError, KeyError) as error:
            if isinstance(error, AttangentError):
                raise
            raise AttangentError(f"peft cannot add {dict(method.peft)} to this model: {error}") from error
