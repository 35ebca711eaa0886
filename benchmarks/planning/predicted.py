"""The plan of each task and method, with what it took."""

import copy
import json
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from attangent._files import write_json
from attangent.kernels.memory import DEFAULT_MEMORY_LIMIT
from attangent.tuning.memory import PeakMemory
from attangent.tuning.methods import Method
from attangent.tuning.planning.expected import Care
from attangent.tuning.planning.making import Outlook
from attangent.tuning.request import Tuning
from attangent.tuning.running import start_classifier
from benchmarks.accuracy_data import minilm
from benchmarks.planning.real import Prepared, rates
from benchmarks.planning.tasks import TOKENS, Setting


def planned(ready: Prepared, setting: Setting, method: str, folder: Path, care: Care) -> dict[str, Any]:
    """The runs that are expected at the eight rates, in the time it took."""
    train, held = setting.files(folder / "data")
    tuning = Tuning(minilm(), train, held, max_tokens=TOKENS, training=setting.training)
    task = replace(ready.task, model=copy.deepcopy(ready.task.model))
    began = time.process_time()
    with PeakMemory() as memory:
        outlook = Outlook(tuning, care, DEFAULT_MEMORY_LIMIT, lambda what: None)
        sure = start_classifier(task, tuning.recipe, setting.training.seed)
        runs, start = outlook.of(Method(method), task, ready.held, rates(method), sure)
    seconds = time.process_time() - began
    own = {"cpu_seconds": seconds, "megabytes": memory.bytes / 1e6, "start": start}
    return {**own, "runs": [asdict(run) for run in runs]}


def plan_of(setting: Setting, method: str, ready: Callable[[], Prepared], folder: Path) -> None:
    """The plan, where it is not there yet."""
    place = folder / "plans" / f"{setting.name}-{method}.json"
    if place.is_file():
        return
    found = planned(ready(), setting, method, folder, Care())
    place.parent.mkdir(parents=True, exist_ok=True)
    write_json(place, found)
    print(place.stem, f"{found['cpu_seconds']:.1f} s", flush=True)


def read_planned(folder: Path, setting: Setting, method: str) -> dict[str, Any] | None:
    place = folder / "plans" / f"{setting.name}-{method}.json"
    return json.loads(place.read_text()) if place.is_file() else None
