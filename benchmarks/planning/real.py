"""Real runs of `tune`'s own training, on cached lower layers: every step's loss, and the score at the end."""

import copy
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attangent._files import write_json
from attangent.tuning.compare.trunk import split_trunk
from attangent.tuning.methods import Method
from attangent.tuning.planning.making import rates_around
from attangent.tuning.preparing import prepare
from attangent.tuning.recipe import Recipe
from attangent.tuning.request import Tuning
from attangent.tuning.running import Task, run_method
from attangent.tuning.training import Training, score
from benchmarks.accuracy_data import minilm
from benchmarks.planning.tasks import TOKENS, Setting

TOP = 2
METHODS = ("ntk", "lora", "head")


@dataclass(frozen=True)
class Prepared:
    """A task on MiniLM's last layers; the states that the layers below give are its rows."""

    task: Task
    held: list[dict[str, Any]]


def prepared(setting: Setting, folder: Path) -> Prepared:
    train, held = setting.files(folder / "data")
    ground = prepare(Tuning(minilm(), train, held, max_tokens=TOKENS))
    trunk, top = split_trunk(ground.model, TOP)
    rows, others = (trunk.encode(part, ground.collate) for part in (ground.train, ground.evaluate))
    return Prepared(Task(top, "classification", rows, ground.collate), others)


def rates(method: str) -> list[float]:
    """The eight rates that a plan looks at by default."""
    return rates_around(Method(method).rate)


def run(ready: Prepared, training: Training, method: str, rate: float) -> dict[str, Any]:
    """The losses of all steps, the score on held-out rows at the end, and what it took."""
    losses: list[float] = []
    task = replace(ready.task, model=copy.deepcopy(ready.task.model))
    began = time.process_time()
    with tempfile.TemporaryDirectory() as place:
        outcome = run_method(
            task,
            Method(method, learning_rate=rate),
            training,
            Recipe(),
            Path(place),
            lambda step, steps, loss: losses.append(loss),
        )
    seconds = time.process_time() - began
    scores = score(outcome.trainer, ready.held, "classification")
    own = {"cpu_seconds": seconds, "peak": outcome.numbers["peak_megabytes"]}
    return {"rate": rate, "losses": losses, **scores, **own}


def place_of(folder: Path, setting: Setting, method: str, rate: float, epochs: float, seed: int) -> Path:
    length = "" if epochs == setting.training.epochs else f"-for-{epochs:g}"
    other = f"-seed-{seed}" if seed else ""
    return folder / "real" / f"{setting.name}-{method}-{rate:g}{length}{other}.json"


def make_run(
    setting: Setting,
    method: str,
    rate: float,
    epochs: float,
    ready: Callable[[], Prepared],
    folder: Path,
    seed: int = 0,
) -> None:
    """The run, where it is not there yet, as a file of its own."""
    place = place_of(folder, setting, method, rate, epochs, seed)
    if place.is_file():
        return
    found = run(ready(), replace(setting.training, epochs=epochs, seed=seed), method, rate)
    place.parent.mkdir(parents=True, exist_ok=True)
    write_json(place, found)
    print(place.stem, f"{found['accuracy']:.3f}", f"{found['cpu_seconds']:.1f} s", flush=True)


def read_run(
    folder: Path, setting: Setting, method: str, rate: float, epochs: float, seed: int = 0
) -> dict[str, Any] | None:
    place = place_of(folder, setting, method, rate, epochs, seed)
    return json.loads(place.read_text()) if place.is_file() else None
