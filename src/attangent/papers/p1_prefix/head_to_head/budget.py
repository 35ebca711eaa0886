"""Methods of equal size: how large a state, a rank or a prefix must be to train as many numbers."""

import copy
from collections.abc import Sequence
from typing import Any

from attangent.papers.p1_prefix.head_to_head.settings import Entrant, Trial
from attangent.papers.p1_prefix.head_to_head.trunk import split_trunk
from attangent.tuning.loading import load_model
from attangent.tuning.methods import Method, adapt, trained_sizes
from attangent.tuning.recipe import Recipe
from attangent.tuning.tasks import TaskKind


def parameter_count(model: Any, method: Method, kind: TaskKind) -> int:
    """How many numbers the method trains on this model, the head not counted."""
    return trained_sizes(adapt(copy.deepcopy(model), method, kind, 0))["parameters"]


def with_budget(model: Any, method: Method, kind: TaskKind, budget: int) -> Method:
    """The method at the size whose number of trained numbers is nearest to the budget.

    That number is a line in the size (rank, tokens or features), so that two sizes tell the line.
    """
    technique = method.technique
    if not technique.has_size(method):
        return method
    small, larger = (parameter_count(model, technique.resized(method, size), kind) for size in (2, 3))
    size = max(2 + round((budget - small) / (larger - small)), technique.smallest)
    return technique.resized(method, size)


def equal_entrants(
    model_name: str, names: Sequence[str], trial: Trial, top: int | None
) -> tuple[Entrant, ...]:
    """The methods of these names, all with the budget of LoRA r=8 on this model and the rates of `tune`."""
    from attangent.papers.p1_prefix.head_to_head.run import split_task
    from attangent.tuning.data.images import ImageTask

    methods = [Method(name) for name in names]
    part = split_task(trial, 0)[0]
    kind: TaskKind = "image-classification" if isinstance(part, ImageTask) else "classification"
    model = load_model(model_name, kind, part.labels)
    model = model if top is None else split_trunk(model, top)[1]
    budget = parameter_count(model, Method("lora", rank=8), kind)
    sized = [with_budget(model, method, kind, budget) for method in methods]
    return tuple(Entrant(method.name, method, _rates(method)) for method in sized)


def _rates(method: Method) -> tuple[float, ...]:
    """The rates that `tune` has for the method, one for each way its start may come out."""
    return tuple(dict.fromkeys(Recipe().rate_of(method, sure) for sure in (True, False)))
