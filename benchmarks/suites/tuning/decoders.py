"""The comparison on a decoder: SmolLM2, its last six layers adapted, sizes within 5 % of LoRA's.

`SMOLLM2` holds parts for `python -m benchmarks.suites.tuning.accuracy`;
`benchmarks.suites.tuning.completions` takes the methods too.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from attangent.adapters.config import NTKConfig
from attangent.papers.p1_prefix.head_to_head.settings import MethodComparison
from attangent.tuning.methods import Method
from benchmarks.suites.compression.bench_compress import smollm2_folder
from benchmarks.suites.tuning.recipes import FIRST, SETTINGS, TRAINING, AsTuned, texts

TOP = 6
METHODS = {
    "lora": Method("lora", rank=8, top=TOP),
    "ntk": Method("ntk", top=TOP, ntk=NTKConfig(size=14)),
    "ntk+lora": Method("ntk+lora", rank=4, top=TOP, ntk=NTKConfig(size=7)),
}
"""92,160 numbers for LoRA, 94,068 and 93,114 for the others."""
LABELS = {"lora": "lora r=8"}
TASKS, SPLITS = ("CounterFact relations", "CounterFact rarer answers"), 3


def compared(data: Path, folder: Path, name: str) -> MethodComparison:
    """300 examples on fresh splits; the classifier reads the last token."""
    entrants = (
        AsTuned("probe", Method("probe")),
        *(AsTuned(LABELS.get(key, key), method) for key, method in METHODS.items()),
    )
    trial = replace(texts(data, folder, 300)[name], name=f"SmolLM2 {name} 300")
    return MethodComparison(
        str(smollm2_folder()), entrants, (trial,), TRAINING, seeds=SPLITS, first_seed=FIRST, **SETTINGS
    )


SMOLLM2: dict[str, Callable[[Path, Path], MethodComparison]] = {
    f"SmolLM2 {name}": partial(compared, name=name) for name in TASKS
}
