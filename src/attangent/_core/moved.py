"""Old module names that documentation taught: importing one warns and forwards to the new module."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from attangent._core.deprecation import warn_deprecated

_SINCE = "0.2"
_PACKAGE = "attangent."
MOVED = {
    "attention.fast": "papers.p1_prefix.fast_attention",
    "audit.papers": "papers",
    "diffusion": "papers.p2_softmax.diffusion",
    "forecast.outlook": "forecast.pipeline",
    "forecast.theory": "papers.p5_forecasting.theory",
    "icl.attention": "papers.p4_in_context.one_layer.attention",
    "icl.transformer": "papers.p4_in_context.transformer",
    "kernels.guarantee": "papers.p1_prefix.guarantee",
    "stages.facts": "papers.p3_two_stage.facts",
    "stages.facts.typed_facts": "papers.p3_two_stage.facts.corpora",
    "stages.theory": "papers.p3_two_stage.theory",
    "stages.theory.constructions": "papers.p3_two_stage.theory.floor",
    "stages.theory.search": "papers.p3_two_stage.theory.floor",
    "tuning.compare": "papers.p1_prefix.head_to_head",
    "tuning.data.layouts": "papers.p1_prefix.superglue",
}
"""New names of old modules; their submodules moved with them."""
RENAMED = {
    "diffusion": {"Adam": "AdamDescent", "Course": "TrainingHistory", "Estimate": "SampleMean"},
}
"""New names of things that were renamed on the way, by old module."""
REMOVED = {
    "tuning.recipe": "a run has no search and no validation settings any more",
    "tuning.planning": "a plan cost five runs and its interval missed on a fresh task; compare two real runs",
}
"""Why a module was removed, and what to do instead."""


class MovedModules:
    """A finder for `sys.meta_path`, asked after all others: it only sees modules that do not exist."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for an old module name; None for all other names."""
        old = fullname.removeprefix(_PACKAGE)
        if old == fullname:
            return None
        if old in REMOVED:
            raise ModuleNotFoundError(
                f"{fullname} was removed in attangent {_SINCE}: {REMOVED[old]}", name=fullname
            )
        new = _home(old)
        if new is None:
            return None
        return ModuleSpec(fullname, _Forwarding(_PACKAGE + new), is_package=True)  # type: ignore[arg-type]


class _Forwarding:
    """A loader that fills a module with nothing but a `__getattr__` to its new home."""

    def __init__(self, home: str):
        self.home = home

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python create an ordinary module."""

    def exec_module(self, module: ModuleType) -> None:
        home = import_module(self.home)
        warn_deprecated(f"the module {module.__name__}", self.home, _SINCE)
        renamed = RENAMED.get(module.__name__.removeprefix(_PACKAGE), {})

        def look_up(name: str) -> Any:
            return getattr(home, renamed.get(name, name))

        vars(module)["__getattr__"] = look_up


def _home(old: str) -> str | None:
    """Return the new name of an old module, found by its longest listed parent."""
    parent, rest = old, ""
    while parent not in MOVED:
        parent, _, last = parent.rpartition(".")
        if not parent:
            return None
        rest = f".{last}{rest}"
    return MOVED[parent] + rest


def forward_moved_modules() -> None:
    """Make old module names importable; repeated calls change nothing."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())  # type: ignore[arg-type]
