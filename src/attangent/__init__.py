"""attangent: softmax attention seen through its tangent kernel. Tune, predict, audit.

Public names are loaded on first use, so that importing the package costs next to nothing.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from attangent._core.errors import AttangentError
from attangent._version import __version__

if _TYPE_CHECKING:
    from attangent.adapters import NTKConfig, attach, batch, detach, load_adapter, save_adapter
    from attangent.adapters.sharing import push_to_hub
    from attangent.attention import PrefixState, ntk_attention, prefix_attention
    from attangent.compression.entry import compress
    from attangent.kernels import predict_training, tangent_kernel
    from attangent.tuning.folders.tuned import load_tuned

_HOMES = {
    "NTKConfig": "attangent.adapters",  # what an adapter is
    "attach": "attangent.adapters",  # give a Hugging Face model a trainable prefix
    "batch": "attangent.adapters",  # another prefix for each row of a batch
    "compress": "attangent.compression.entry",  # a long prompt as a prefix of constant size
    "detach": "attangent.adapters",  # and take it off again
    "load_adapter": "attangent.adapters",  # attach what a folder holds
    "load_tuned": "attangent.tuning.folders.tuned",  # the model and tokenizer that `attangent tune` saved
    "push_to_hub": "attangent.adapters.sharing",  # share a folder of any of these
    "save_adapter": "attangent.adapters",  # write an adapter to a folder
    "PrefixState": "attangent.attention",  # a prefix of any length in constant size: Z and k
    "ntk_attention": "attangent.attention",  # attention with such a prefix
    "prefix_attention": "attangent.attention",  # attention with the prefix itself
    "predict_training": "attangent.kernels",  # training curves and answers from the kernel at the start
    "tangent_kernel": "attangent.kernels",  # the tangent kernel of any torch module
}

__all__ = [
    "AttangentError",
    "NTKConfig",
    "PrefixState",
    "__version__",
    "attach",
    "batch",
    "compress",
    "detach",
    "load_adapter",
    "load_tuned",
    "ntk_attention",
    "predict_training",
    "prefix_attention",
    "push_to_hub",
    "save_adapter",
    "tangent_kernel",
]


_ROOMS = (
    *("adapters", "attention", "audit", "compression", "data", "papers"),
    *("forecast", "icl", "kernels", "stages", "tuning"),
)


def __getattr__(name: str) -> _Any:
    if name in _HOMES:
        return getattr(_import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return _import_module(f"attangent.{name}")
    raise AttributeError(f"module 'attangent' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
