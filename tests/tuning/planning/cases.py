"""A tiny model with rows of different lengths, started by a method as `tune` starts it."""

import copy
from dataclasses import dataclass, replace
from typing import Any

from attangent.kernels.memory import DEFAULT_MEMORY_LIMIT
from attangent.tuning.methods import Method
from attangent.tuning.planning.expected import Care, Expectation, Scene
from attangent.tuning.planning.network import Network, targets_of
from attangent.tuning.planning.objective import Objective
from attangent.tuning.planning.rollout import Course, rates_by_weight
from attangent.tuning.planning.standing_in import Practice, stand_in_for
from attangent.tuning.preparing import prepare
from attangent.tuning.recipe import Recipe
from attangent.tuning.request import Tuning
from attangent.tuning.running import Task, rate_scale, started
from attangent.tuning.training import Training

SHORT = Training(epochs=1.5, batch=8, head_rate=1e-3, weight_decay=0.1)


@dataclass(frozen=True)
class Case:
    task: Task
    held: Any
    method: Method
    training: Training

    def own_task(self) -> Task:
        return replace(self.task, model=copy.deepcopy(self.task.model))

    def network(self) -> tuple[Any, Network]:
        adapted, _ = started(self.own_task(), self.method, Recipe(), self.training.seed)
        return adapted, Network.of(adapted, 2, self.task.collate)

    def expected(self, rates: list[float], care: Care) -> list[Any]:
        adapted, network = self.network()
        targets = [targets_of(rows) for rows in (self.task.rows, self.held)]
        objective = Objective(network.basis)
        courses = [
            Course.of(self.task.rows, replace(self.training, seed=self.training.seed + order))
            for order in range(care.orders)
        ]
        scale = rate_scale(self.task, self.method, Recipe())
        weights = rates_by_weight(adapted, rates, self.training, scale)
        practice = Practice(courses[0], weights[:1], objective, targets[0])
        stand_in = stand_in_for(network, self.task.rows, practice, care.draws, 0, DEFAULT_MEMORY_LIMIT)
        scene = Scene(stand_in, objective, self.task.rows, targets[0], self.held, targets[1])
        return Expectation(scene, care).runs(rates, weights, [courses])


def case(folder: Any, method: str, training: Training = SHORT) -> Case:
    """Texts of a folder's train.jsonl, some of them cut short, so that batches are padded."""
    tuning = Tuning(str(folder), folder / "train.jsonl", folder / "eval.jsonl")
    ground = prepare(tuning)
    rows = [
        {name: value[:-2] if isinstance(value, list) and i % 3 == 0 else value for name, value in row.items()}
        for i, row in enumerate(ground.train)
    ]
    return Case(
        Task(ground.model, "classification", rows, ground.collate), ground.evaluate, Method(method), training
    )
