"""Ways to set up a state and LoRA, on tasks that serve for choosing.

Run `python -m benchmarks.suites.tuning.building FOLDER`.

`digits`: the digits 0 to 4 on a ViT that was trained on 5 to 9. `answers`: the last words of CounterFact's
sentences on MiniLM. `relations`: the relation that a subject of CounterFact stands in, other relations and
subjects than elsewhere. All with 300 examples and the recipe of `tune`, at the rates named here; nothing here
is reported on elsewhere. `few-TASK` tries fewer ways: on the digits, on images of Tiny ImageNet (a ViT that
was trained on what it is adapted to elsewhere), and with 1000 examples; `long-TASK` has 12 epochs, not 4.
`fast-head-TASK` trains the classifier at five times its rate, and `head-TASK` stands beside it.
Tasks may be named behind the folder. Runs are appended to FOLDER/TASK/runs.jsonl; the same command goes
on where it was stopped.
"""

import json
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from attangent.adapters.config import NTKConfig
from attangent.papers.p1_prefix.head_to_head.run import Run
from attangent.papers.p1_prefix.head_to_head.settings import Entrant, MethodComparison, TaskSplit
from attangent.tuning.methods import Method
from benchmarks.suites.tuning.comparison import compare
from benchmarks.suites.tuning.data import (
    OTHER_TINY,
    counterfact_answers,
    counterfact_other_relations,
    counterfact_rarest_answers,
    drawn_digits,
    minilm,
    pretrained_vit,
)
from benchmarks.suites.tuning.recipes import ALL_LINEAR, SETTINGS, TRAINING, lora_on, tiny_imagenet
from benchmarks.suites.tuning.verdict import accuracies, differences

RIVAL = "lora x 2"


def _state(**settings: Any) -> Method:
    return Method("ntk", ntk=NTKConfig(**settings))


def _lora_on(*names: str) -> Method:
    return Method("peft", peft={"peft_type": "LORA", "r": 16, "lora_alpha": 32, "target_modules": [*names]})


def _with_state(size: int, ranks: Mapping[str, int], scale: float = 2.0) -> Method:
    """A state of this size, and LoRA with these ranks, its matrices multiplied by `scale`."""
    return replace(lora_on(ranks, scale), name="ntk+lora", ntk=NTKConfig(size=size))


BOTH = Method.from_dict({"name": "ntk+lora"})
QUERY_AND_VALUE = {"q": 8, "v": 8}
ENTRANTS = (
    Entrant("probe", Method("probe")),
    Entrant(RIVAL, Method("lora"), (0.004,)),
    Entrant("lora", Method("lora"), (0.002,)),
    Entrant("lora on values", _lora_on("value", "v_proj"), (0.002,)),
    Entrant("lora on queries", _lora_on("query", "q_proj"), (0.002,)),
    Entrant("ntk", _state(), (0.01,)),
    Entrant("ntk x 2", _state(), (0.02,)),
    Entrant("undamped", _state(damped=0), (0.01,)),
    Entrant("damped .5, x 2", _state(damped=0.5), (0.02,)),
    Entrant("damped .75, x 2", _state(damped=0.75), (0.02,)),
    Entrant("a quarter, x 2", _state(size=4), (0.02,)),
    Entrant("anchors", _state(features="anchors"), (0.03,)),
    Entrant("anchors x 2", _state(features="anchors"), (0.06,)),
    Entrant("anchors, a quarter, x 2", _state(features="anchors", size=4), (0.06,)),
    Entrant("ntk+lora", BOTH, (0.01,)),
    Entrant("ntk+lora x 2", BOTH, (0.02,)),
    Entrant("lora x 4", Method("lora"), (0.008,)),
    Entrant("lora, scaled by 16/√8, x 2", lora_on(QUERY_AND_VALUE, 8**-0.5 * 16), (0.004,)),
    Entrant("lora, scaled by 8, x 2", lora_on(QUERY_AND_VALUE, 8), (0.004,)),
    Entrant("lora, scaled by 16, x 2", lora_on(QUERY_AND_VALUE, 16), (0.004,)),
    Entrant("lora on values, scaled by 8, x 2", lora_on({"v": 16}, 8), (0.004,)),
    Entrant("lora on all linear layers, x 2", lora_on(ALL_LINEAR["texts"]), (0.004,)),
    Entrant("lora on the MLP, x 2", lora_on({"up": 3, "down": 3}), (0.004,)),
    Entrant("half a state, lora on values, x 2", _with_state(8, {"v": 8}), (0.02,)),
    Entrant(
        "half a state, lora on values scaled by 16/√8, x 2",
        _with_state(8, {"v": 8}, 8**-0.5 * 16),
        (0.02,),
    ),
    Entrant("half a state, lora on values scaled by 8", _with_state(8, {"v": 8}, 8), (0.01,)),
    Entrant("half a state, lora on values and output, x 2", _with_state(8, {"v": 4, "o": 4}), (0.02,)),
    Entrant("a quarter, lora on values scaled by 8", _with_state(4, {"v": 12}, 8), (0.01,)),
    Entrant("a quarter, lora on both scaled by 8", _with_state(4, {"q": 6, "v": 6}, 8), (0.01,)),
    Entrant(
        "half a state, lora on both scaled by 16/√8, x 2",
        _with_state(8, {"q": 4, "v": 4}, 8**-0.5 * 16),
        (0.02,),
    ),
    Entrant("half a state, lora on both scaled by 8, x 2", _with_state(8, {"q": 4, "v": 4}, 8), (0.02,)),
    Entrant("a quarter, lora on both, x 2", _with_state(4, {"q": 6, "v": 6}), (0.02,)),
    Entrant(
        "a quarter, lora on both scaled by 16/√8, x 2",
        _with_state(4, {"q": 6, "v": 6}, 8**-0.5 * 16),
        (0.02,),
    ),
    Entrant(
        "a quarter, lora on values scaled by 16/√8, x 2",
        _with_state(4, {"v": 12}, 8**-0.5 * 16),
        (0.02,),
    ),
)


_ON_IMAGES = (
    *(RIVAL, "lora, scaled by 16/√8, x 2", "lora, scaled by 8, x 2", "ntk+lora x 2", "ntk x 2"),
    *("half a state, lora on values, x 2", "half a state, lora on values scaled by 16/√8, x 2"),
    *("half a state, lora on both scaled by 16/√8, x 2", "half a state, lora on both scaled by 8, x 2"),
    *("half a state, lora on values scaled by 8", "a quarter, lora on both scaled by 8"),
    *("a quarter, lora on both scaled by 16/√8, x 2", "a quarter, lora on values scaled by 16/√8, x 2"),
)
_LONG = {
    "long-digits": (RIVAL, _ON_IMAGES[1], "half a state, lora on values scaled by 16/√8, x 2"),
    "long-images": (RIVAL, _ON_IMAGES[1], "half a state, lora on values scaled by 16/√8, x 2"),
    "long-answers": (RIVAL, "ntk x 2"),
    "long-relations": (RIVAL, "ntk x 2"),
}
"""Ways that are trained for three times as long."""
_FAST_HEAD = replace(TRAINING, head_rate=0.025)
"""The classifier, which starts in closed form, at five times its rate: as it was before."""
_ROWS = (
    *("probe", RIVAL, "lora", "ntk x 2", "ntk", "ntk+lora x 2", "ntk+lora"),
    "a quarter, lora on both, x 2",
)


def entrants_of(name: str) -> tuple[Entrant, ...]:
    """The ways that are tried on the task: all, or those that may gain there."""
    if name in ("digits", "answers", "relations"):
        return ENTRANTS
    if name.startswith(("head-", "fast-head-")):
        return tuple(one for one in ENTRANTS if one.label in (RIVAL, "ntk x 2", "ntk+lora x 2"))
    few = _LONG.get(name, _ROWS if name.endswith("00") else _ON_IMAGES)
    return tuple(one for one in ENTRANTS if one.label in few)


def digits(data: Path, folder: Path) -> tuple[str, TaskSplit]:
    images = drawn_digits(folder / "reversed", first=5)
    trial = TaskSplit("digits 0 to 4", (images / "adapt/train",), 300, 100, 400, (images / "adapt/test",))
    return pretrained_vit(images, folder / "vit-reversed", 8, epochs=40), trial


def images(data: Path, folder: Path) -> tuple[str, TaskSplit]:
    return tiny_imagenet(data, folder, 300, "reversed-tiny", OTHER_TINY)


def relations(data: Path, folder: Path, size: int = 300) -> tuple[str, TaskSplit]:
    table = counterfact_other_relations(data, folder)
    return minilm(), TaskSplit(f"other relations {size}", (table,), size, 100, 2000, max_tokens=32)


def answers(data: Path, folder: Path, size: int = 300) -> tuple[str, TaskSplit]:
    table = counterfact_answers(data, folder)
    return minilm(), TaskSplit(f"answers {size}", (table,), size, 100, 700, max_tokens=32)


def rarest(data: Path, folder: Path, size: int) -> tuple[str, TaskSplit]:
    table = counterfact_rarest_answers(data, folder)
    return minilm(), TaskSplit(f"rarest answers {size}", (table,), size, 100, 1000, max_tokens=32)


TASKS = {
    "digits": digits,
    "answers": answers,
    "relations": relations,
    "long-digits": digits,
    "long-images": images,
    "long-answers": answers,
    "long-relations": relations,
    "few-digits": digits,
    "few-images": images,
    "few-answers-1000": partial(answers, size=1000),
    "few-relations-1000": partial(relations, size=1000),
    "few-rarest-300": partial(rarest, size=300),
    "few-rarest-1000": partial(rarest, size=1000),
    **{
        f"{head}-{name}": task
        for head in ("head", "fast-head")
        for name, task in {
            "answers": answers,
            "relations": relations,
            "rarest": partial(rarest, size=300),
            "digits": digits,
            "images": images,
        }.items()
    },
}
SPLITS = {"digits": 8, "few-digits": 8, **{name: 4 for name in TASKS if "head-" in name}}
"""How many splits there are; 3 where it is not said."""


def table(runs: Sequence[Run]) -> str:
    """Accuracy and loss on test rows, and the difference to LoRA at its better rate in points, by split."""
    gaps = {
        one.label: next(iter(differences(accuracies(runs), one.label, RIVAL).values()), None)
        for one in ENTRANTS
    }
    lines = ["| method | accuracy | loss | less LoRA x 2 | splits |", "|---|---|---|---|---|"]
    for label, gap in gaps.items():
        own = [run["test"] for run in runs if run["entrant"] == label]
        if own:
            accuracy, loss = (statistics.fmean(one[name] for one in own) for name in ("accuracy", "loss"))
            less = "" if label == RIVAL or gap is None else str(gap)
            lines.append(f"| {label} | {accuracy:.3f} | {loss:.3f} | {less} | {len(own)} |")
    return "\n".join(lines)


def main(folder: Path, names: Sequence[str]) -> None:
    torch.set_num_threads(1)
    for name in names or TASKS:
        model, trial = TASKS[name](Path(os.environ["ATTANGENT_DATA"]), folder)
        training = replace(TRAINING, epochs=12) if name in _LONG else TRAINING
        training = _FAST_HEAD if name.startswith("fast-head-") else training
        given = MethodComparison(
            model, entrants_of(name), (trial,), training, seeds=SPLITS.get(name, 3), **SETTINGS
        )
        print(table(compare(given, folder / name, lambda run: print(json.dumps(run), flush=True))))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
