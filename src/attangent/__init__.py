"""attangent: softmax attention seen through its tangent kernel. Compress, tune, forecast, audit.

Public names are loaded on first use, so that importing the package is fast.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from attangent._core.deprecation import forward_moved_modules as _forward_moved_modules
from attangent._core.deprecation import moved_names as _moved_names
from attangent._core.errors import AttangentError
from attangent._version import __version__

if _TYPE_CHECKING:
    from attangent.adapters import (
        NTKConfig,
        attach,
        batch,
        detach,
        load_adapter,
        push_to_hub,
        save_adapter,
    )
    from attangent.attention import PrefixState, ntk_attention, prefix_attention
    from attangent.compression import compress
    from attangent.kernels import predict_training, tangent_kernel
    from attangent.tuning import load_tuned

_HOMES = {
    "NTKConfig": "attangent.adapters",
    "PrefixState": "attangent.attention",
    "attach": "attangent.adapters",
    "batch": "attangent.adapters",
    "compress": "attangent.compression",
    "detach": "attangent.adapters",
    "load_adapter": "attangent.adapters",
    "load_tuned": "attangent.tuning",
    "ntk_attention": "attangent.attention",
    "predict_training": "attangent.kernels",
    "prefix_attention": "attangent.attention",
    "push_to_hub": "attangent.adapters",
    "save_adapter": "attangent.adapters",
    "tangent_kernel": "attangent.kernels",
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
    *("adapters", "attention", "audit", "compression", "data", "forecast"),
    *("icl", "kernels", "papers", "serving", "stages", "tuning"),
)
_PLANNING = "a plan cost five runs and its interval missed on a fresh task; tune and compare two runs instead"
_look_up_moved = _moved_names(
    __name__, "0.2", {}, removed={"KernelTuned": _PLANNING, "plan_tuning": _PLANNING}
)


def __getattr__(name: str) -> _Any:
    if name in _HOMES:
        return getattr(_import_module(_HOMES[name]), name)
    if name in _ROOMS or name == "diffusion":  # `diffusion` moved: importing it warns
        return _import_module(f"{__name__}.{name}")
    return _look_up_moved(name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])


_forward_moved_modules()
