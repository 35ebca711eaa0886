"""What is trained from classifiers of several penalties.

Run `python -m benchmarks.suites.tuning.start_penalties FOLDER`.

On `answers`, a task that is not reported on, one split: accuracy and loss on 500 rows after training a state
and LoRA at their own rates from a classifier of a fixed inverse penalty, in units of 1 / size of features.
Finished runs are read from FOLDER/penalties.jsonl.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from attangent.papers.p1_prefix.head_to_head.run import PreparedTrial, one_run
from attangent.papers.p1_prefix.head_to_head.settings import Entrant
from attangent.tuning import start
from attangent.tuning.methods import Method
from benchmarks.suites.tuning.drift import METHODS, TRAINING, prepared

STRENGTHS = (100.0, 10.0, 1.0, 0.1)


def trained(given: PreparedTrial, name: str, strength: float) -> dict[str, Any]:
    """One training from the classifier of this inverse penalty."""
    entrant = Entrant(name, Method(name))
    fixed = start.HeadFit(strength, strength, confident=False)
    with patch.object(start, "_best_fit", lambda *_: fixed):
        run = one_run("answers 300", given, entrant, entrant.rates[0], TRAINING, 0, "closed-form")
    return {"method": name, "strength": strength, **run["test"]}


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "penalties.jsonl"
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    given = prepared(Path(os.environ["ATTANGENT_DATA"]), folder)
    for strength in STRENGTHS:
        for name in METHODS:
            if not any((one["method"], one["strength"]) == (name, strength) for one in done):
                done.append(trained(given, name, strength))
                path.write_text("".join(json.dumps(one) + "\n" for one in done))
                print(json.dumps(done[-1]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
