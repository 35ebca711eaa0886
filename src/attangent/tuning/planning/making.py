"""Make a plan: what each method would come to at each rate. What `attangent plan` calls."""

import copy
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor, nn

from attangent._checks import check_positive
from attangent._errors import AttangentError
from attangent.kernels.memory import DEFAULT_MEMORY_LIMIT, check_limit, refuse_above
from attangent.tuning import request
from attangent.tuning.kinds import NEEDS
from attangent.tuning.methods import Method
from attangent.tuning.planning.certainty import (
    interval,
    is_sure_of_loss,
    is_sure_of_score,
    usual_error,
)
from attangent.tuning.planning.choosing import best_run, to_make
from attangent.tuning.planning.cost import Cost, cost_of
from attangent.tuning.planning.expected import Care, Expectation, Expected, Scene, spread_out, usual_variance
from attangent.tuning.planning.network import Network, targets_of
from attangent.tuning.planning.objective import Objective
from attangent.tuning.planning.plan import Plan, PlannedRun, thinned
from attangent.tuning.planning.rollout import Course, rates_by_weight
from attangent.tuning.planning.standing_in import MOST_DIRECTIONS, Practice, stand_in_for
from attangent.tuning.planning.trials import Trials
from attangent.tuning.preparing import class_weights, prepare
from attangent.tuning.request import Tuning
from attangent.tuning.running import Task, rate_scale, start_classifier, with_method

FACTORS = tuple(2.0**power for power in range(-5, 3))
"""The rates that are looked at, relative to the method's own: eight, from a 32nd to four times it.
The rates that `tune` takes by default, twice it, all of it and a quarter, are among them."""
LENGTHS = (0.25, 0.5, 1.0)
"""The lengths of training that are looked at, relative to the epochs asked for."""

Report = Callable[[str], None]


def plan_tuning(
    tuning: Tuning,
    methods: Sequence[str] = ("ntk", "lora", "head"),
    rates: Sequence[float] | None = None,
    care: Care | None = None,
    memory_limit: float = DEFAULT_MEMORY_LIMIT,
    report: Report = lambda what: None,
    trials: Trials | None = None,
) -> Plan:
    """Predict the runs that `tune` would make, before any is made.

    tuning: as for `finetune`; of its method the settings are kept and the name is not.
    methods, rates: what to look at; by default eight rates around each method's own.
    report: called with a line about what is being done.
    trials: make the runs that are worth it, before one is chosen, and keep them; none by default.

        plan = attangent.plan_tuning(Tuning("MODEL", Path("messages.csv")), methods=["ntk", "lora"])
    """
    began = time.perf_counter()
    chosen = [_method(tuning, name) for name in dict.fromkeys(methods)]
    _check(tuning, chosen, rates)
    check_limit(memory_limit)
    ground = prepare(tuning)
    refuse_batch_norm(ground.model)
    weights = class_weights(ground) if tuning.class_weights else None
    task = Task(ground.model, tuning.kind, ground.train, ground.collate, weights)
    outlook = Outlook(tuning, care or Care(), memory_limit, report)
    sure = start_classifier(task, tuning.recipe, tuning.training.seed)
    found: list[PlannedRun] = []
    start = 0.0
    for method in chosen:
        own = replace(task, model=copy.deepcopy(task.model))
        runs, start = outlook.of(method, own, ground.evaluate, rates, sure)
        found += runs
    if trials is not None:
        for place in to_make(found, trials.most):
            method = next(method for method in chosen if method.name == found[place].method)
            found[place] = trials.made(tuning, method, found[place], report)
    asked = request.settings_of(replace(tuning, method=chosen[0]))
    by_name = {
        method.name: request.settings_of(replace(tuning, method=method))["method"] for method in chosen
    }
    asked["methods"] = by_name
    del asked["method"]
    measure = "r2" if NEEDS[tuning.kind].values else "accuracy"
    seconds = time.perf_counter() - began
    scored = min(len(ground.evaluate), outlook.care.scored)
    return Plan(asked, measure, start, scored, tuple(found), best_run(found), seconds)


def refuse_batch_norm(model: nn.Module) -> None:
    """Refuse a model whose output for a row depends on the other rows of its batch while it is trained."""
    found = [
        name for name, part in model.named_modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)
    ]
    if found:
        raise AttangentError(
            f"the model has {len(found)} layers of batch norm (the first is {found[0]}), with which a row's "
            "output depends on its batch and cannot be foretold; tune with --search, or take a model without"
        )


def rates_around(rate: float) -> list[float]:
    """The rates looked at where the method's own is `rate`."""
    return [float(f"{factor * rate:.3g}") for factor in FACTORS]


class Outlook:
    """What is asked of every method alike."""

    def __init__(self, tuning: Tuning, care: Care, memory_limit: float, report: Report):
        self.tuning, self.care, self.memory_limit, self.report = tuning, care, memory_limit, report
        self.usual, self.scored, self.rate = 0.0, 1, 0.0

    def of(
        self, method: Method, task: Task, held: Any, rates: Sequence[float] | None, sure: bool
    ) -> tuple[list[PlannedRun], float]:
        """The runs of one method as they are expected, and the score at their start.

        task: its classifier is started, and `sure` or not, as `start_classifier` says.
        """
        training = self.tuning.training
        adapted, self.rate = with_method(task, method, self.tuning.recipe, training.seed, sure)
        network = Network.of(adapted, _outputs(task), task.collate)
        self._refuse_too_much(network, task, method)
        lengths = _distinct([self._courses(task.rows, share * training.epochs) for share in LENGTHS])
        cost = cost_of(adapted, task.rows, task.collate, lengths[-1][0])
        count = f"{len(network.theta):,} weights would be trained on {len(task.rows)} rows"
        self.report(f"{method.name}: {count}")
        scale = rate_scale(task, method, self.tuning.recipe)
        asked = list(rates) if rates is not None else rates_around(method.rate)
        by_weight = rates_by_weight(adapted, asked, training, scale)
        scene = self._scene(network, task, held, by_weight, lengths[-1][0])
        expectation = Expectation(scene, self.care)
        found = expectation.runs(asked, by_weight, lengths, partial(self._say_new, method.name))
        self.usual, self.scored = usual_variance(found), len(scene.held)
        return [self._planned(method, one, cost) for one in found], expectation.start

    def _say_new(self, method: str, rate: float) -> None:
        self.report(f"{method}: the run at rate {rate:g} is looked at again, more closely")

    @property
    def _has_values(self) -> bool:
        return NEEDS[self.tuning.kind].values

    def _courses(self, rows: Any, epochs: float) -> list[Course]:
        training = self.tuning.training
        seeds = range(training.seed, training.seed + self.care.orders)
        return [Course.of(rows, replace(training, epochs=epochs, seed=seed)) for seed in seeds]

    def _scene(self, network: Network, task: Task, held: Any, rates: Tensor, course: Course) -> Scene:
        held = spread_out(held, self.care.scored)
        objective = Objective(network.basis, self._has_values, task.weights)
        targets = [targets_of(rows) for rows in (task.rows, held)]
        middle = rates[len(rates) // 2][None]
        practice = Practice(course, middle, objective, targets[0])
        seed = self.tuning.training.seed
        stand_in = stand_in_for(network, task.rows, practice, self.care.draws, seed, self.memory_limit)
        return Scene(stand_in, objective, task.rows, targets[0], held, targets[1])

    def _refuse_too_much(self, network: Network, task: Task, method: Method) -> None:
        """Half precision is the least that a Jacobian is kept in."""
        weights, outputs, rows = len(network.theta), network.basis.shape[1], len(task.rows)
        if network.classifier is not None:
            outputs = min(outputs, MOST_DIRECTIONS)
        refuse_above(
            self.memory_limit,
            2 * rows * outputs * weights,
            f"the tangent of {method.name} at {rows} rows with {outputs} outputs and {weights:,} weights",
            "plan on fewer rows, fewer layers (top) or a smaller rank, or raise memory_limit",
        )

    def _planned(self, method: Method, one: Expected, cost: Cost) -> PlannedRun:
        score, variance = one.scores.mean().item(), max(one.variance, self.usual)
        error = usual_error(one.departure, one.fitted)
        low, high = interval(score, variance, one.score_gap, self.scored, error, self._has_values)
        return PlannedRun(
            method=method.name,
            learning_rate=one.rate,
            epochs=one.epochs,
            steps=len(one.losses),
            train_loss=one.losses.mean().item(),
            curve=thinned(one.losses.tolist()),
            eval_loss=one.held_losses.mean().item(),
            score=score,
            low=low,
            high=high,
            departure=one.departure,
            loss_sure=is_sure_of_loss(one.departure, one.loss_gap),
            score_sure=is_sure_of_score(score, low),
            corrections=one.corrections,
            seconds=cost.seconds * len(one.losses),
            megabytes=cost.megabytes,
            default=math.isclose(one.rate, self.rate) and one.epochs == self.tuning.training.epochs,
        )


def _method(tuning: Tuning, name: str) -> Method:
    """The method of this name with the settings that the tuning's own has."""
    own = request.settings_of(tuning)["method"] if tuning.method.name == name else {}
    return Method.from_dict({**own, "name": name, "top": tuning.method.top, "learning_rate": None})


def _check(tuning: Tuning, methods: list[Method], rates: Sequence[float] | None) -> None:
    """Refuse what cannot be planned, before anything is read."""
    if not methods:
        raise AttangentError("no method is named; give some, such as ntk,lora,head")
    for method in methods:
        if not method.technique.trains or len(method.technique.candidates(method)) > 1:
            raise AttangentError(
                f"{method.name} has no run of its own to predict; name methods that train, such as ntk"
            )
    if tuning.kind == "causal-lm":
        raise AttangentError(
            "causal-lm cannot be planned: a text has an output for each word of the vocabulary; "
            "plan classification or regression"
        )
    odd = {"quantised": tuning.quantised, "beside": tuning.beside, "bf16": tuning.training.bf16 or None}
    for name, value in odd.items():
        if value is not None:
            raise AttangentError(f"{name} is {value}, which a plan cannot follow; leave it out")
    if tuning.recipe.search or tuning.recipe.validation != "none":
        raise AttangentError("a plan takes the place of search and validation; leave both out")
    if rates is not None and not rates:
        raise AttangentError("no rate is given; name some, or leave them out for eight around the default")
    for rate in rates or ():
        check_positive("a rate", rate)


def _outputs(task: Task) -> int:
    return 1 if NEEDS[task.kind].values else int(task.model.config.num_labels)


def _distinct(lengths: list[list[Course]]) -> list[list[Course]]:
    """Lengths of different numbers of steps, the longest last."""
    return list({courses[0].steps: courses for courses in lengths}.values())
