"""Trained keys and values in front of the tokens (P-tuning v2)."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attangent._core.errors import AttangentError
from attangent.tuning.methods.from_peft import FromPeft, peft_task
from attangent.tuning.methods.technique import Site

if TYPE_CHECKING:
    from attangent.tuning.methods.settings import Method


class PrefixTokens(FromPeft):
    name = "prefix"

    def default_rate(self, method: "Method") -> float:
        return 1e-2

    def has_size(self, method: "Method") -> bool:
        return True

    def resized(self, method: "Method", size: int) -> "Method":
        return replace(method, tokens=size)

    def config(self, model: Any, method: "Method", site: Site) -> Any:
        from peft import PrefixTuningConfig

        if site.kind == "image-classification":
            raise AttangentError(
                "peft has no prefix tuning for vision models; choose ntk, lora, head or full"
            )
        if method.top is not None and method.top < getattr(model.config, "num_hidden_layers", method.top):
            raise AttangentError(
                f"top is {method.top}, but peft's prefix goes into all {model.config.num_hidden_layers} "
                "layers; leave top out, or compare with a cached trunk"
            )
        return PrefixTuningConfig(task_type=peft_task(site.kind), num_virtual_tokens=method.tokens)
