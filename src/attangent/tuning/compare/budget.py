"""Methods of equal size: how large a state, a rank or a prefix must be to train as many numbers."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attangent._errors import AttangentError
from attangent.adapters.config import NTKConfig
from attangent.tuning.compare.settings import Entrant, Trial
from attangent.tuning.compare.trunk import split_trunk
from attangent.tuning.loading import load_model
from attangent.tuning.methods import Kind, Method, adapt, trained_sizes


def parameter_count(model: Any, method: Method, kind: Kind) -> int:
    """How many numbers the method trains on this model, the head not counted."""
    return trained_sizes(adapt(copy.deepcopy(model), method, kind, 0))["parameters"]


def with_budget(model: Any, method: Method, kind: Kind, budget: int) -> Method:
    """The method at the size whose number of trained numbers is nearest to the budget.

    That number is a line in the size (rank, tokens or features), so that two sizes tell the line.
    """
    if method.name in ("head", "full") or (
        method.name == "ntk" and method.ntk.features not in ("learned", "anchors")
    ):
        return method
    small, larger = (parameter_count(model, _sized(method, size), kind) for size in (2, 3))
    size = max(2 + round((budget - small) / (larger - small)), 1 + (method.name == "ntk"))
    return _sized(method, size)


def _sized(method: Method, size: int) -> Method:
    if method.name == "lora":
        return replace(method, rank=size)
    if method.name == "prefix":
        return replace(method, tokens=size)
    if method.name == "ntk":
        return replace(method, ntk=NTKConfig.from_dict(method.ntk.as_dict() | {"size": size}))
    raise AttangentError(f"{method.name} has two sizes; give them in a TOML file")


def equal_entrants(
    model_name: str, names: Sequence[str], trial: Trial, top: int | None
) -> tuple[Entrant, ...]:
    """The methods of these names, all with the budget of LoRA r=8 on this model."""
    from attangent.tuning.compare.run import split_task
    from attangent.tuning.data.images import ImageTask

    methods = [Method(name) for name in names]  # pyright: ignore[reportArgumentType]
    part = split_task(trial, 0)[0]
    kind: Kind = "image-classification" if isinstance(part, ImageTask) else "classification"
    model = load_model(model_name, kind, part.labels)
    model = model if top is None else split_trunk(model, top)[1]
    budget = parameter_count(model, Method("lora", rank=8), kind)
    return tuple(Entrant(m.name, with_budget(model, m, kind, budget)) for m in methods)
