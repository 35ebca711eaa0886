"""Section 4.2: NTK-Attention and LoRA change different parts of a model and can be combined."""

import copy
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.adapters.attaching import attach
from attangent.adapters.config import NTKConfig
from attangent.adapters.record import disabled, states_of
from attangent.audit import Conclusion, Finding, Settings, claim
from attangent.audit.checks import needs_adapters
from attangent.papers.p1_prefix.claims.small_tasks import SMALL_LANGUAGE, best_runs, language_trial
from attangent.papers.p1_prefix.head_to_head.run import PreparedTrial, Run
from attangent.papers.p1_prefix.head_to_head.settings import Entrant
from attangent.tuning.methods import Method, adapt
from attangent.tuning.request import TrainingSettings


@claim(
    "P1/appendix-c-orthogonal",
    place="Section 4.2",
    title="NTK-Attention and LoRA can be used together",
    quote="Also note that the two methods are orthogonal to each other and can be used together.",
    nature="remark",
    plain="NTK-Attention and LoRA can be used in one model, as the paper says.",
    quick={
        **SMALL_LANGUAGE,
        "epochs": 6,
        "lora_rate": 0.01,
        "ntk_rate": 0.02,
        "both_rate": 0.01,
        "slack": 1.1,
    },
    full={"width": 48, "pretrain": 2000, "train": 200, "epochs": 8},
    seeds=2,
    seconds=6.0,
)
@needs_adapters
def together(settings: Settings, seed: int) -> Finding:
    """NTK-Attention and LoRA can be used in one model. A zero state does not change the LoRA model, switching
    the state off restores it, and both can be trained together.
    """
    trial = language_trial(settings, seed)
    state = NTKConfig(size=settings.features)
    entrants = (
        Entrant("LoRA", Method("lora", rank=settings.rank), (settings.lora_rate,)),
        Entrant("NTK", Method("ntk", ntk=state), (settings.ntk_rate,)),
        Entrant("both", Method("ntk+lora", ntk=state, rank=settings.rank), (settings.both_rate,)),
    )
    runs = best_runs(trial, entrants, TrainingSettings(epochs=settings.epochs, batch=settings.batch), seed)
    zero, off = differences(trial, settings, seed)
    return Finding(
        conclusions=(
            Conclusion("largest change of the LoRA model by a zero state", "<=", 0.0, zero),
            Conclusion("largest difference from the LoRA model with the state off", "<=", 0.0, off),
            Conclusion("trainable parameters of both less the sum of the two", "==", 0.0, _surplus(runs)),
            Conclusion(
                "training loss of both / of the better method alone",
                "<=",
                settings.slack,
                runs["both"]["train_loss"] / min(runs["LoRA"]["train_loss"], runs["NTK"]["train_loss"]),
                claimed=False,
            ),
            Conclusion(
                "test accuracy of both less that of the better method alone",
                ">=",
                0.0,
                _lead(runs),
                claimed=False,
            ),
        ),
        numbers={f"test accuracy, {label}": run["test"]["accuracy"] for label, run in runs.items()}
        | {f"training loss, {label}": run["train_loss"] for label, run in runs.items()},
    )


def _surplus(runs: dict[str, Run]) -> float:
    return runs["both"]["parameters"] - runs["LoRA"]["parameters"] - runs["NTK"]["parameters"]


def _lead(runs: dict[str, Run]) -> float:
    alone = max(runs[label]["test"]["accuracy"] for label in ("LoRA", "NTK"))
    return runs["both"]["test"]["accuracy"] - alone


def differences(trial: PreparedTrial, settings: Settings, seed: int) -> tuple[float, float]:
    """Return how much a zero state, and a state that is switched off, change the logits of a LoRA model."""
    batch: dict[str, Any] = trial.collate(trial.test[:64])
    draw = generator(seed, "shaken")
    lora = adapt(copy.deepcopy(trial.model), Method("lora", rank=settings.rank), trial.kind, seed).eval()
    _shake([p for name, p in lora.named_parameters() if "lora_B" in name], draw)
    with torch.no_grad():
        expected = lora(**batch).logits
        attach(lora, NTKConfig(size=settings.features, share=0.0), calibration=batch)
        zero = lora(**batch).logits
        _shake([p for state in states_of(lora).values() for p in state.parameters()], draw)
        with disabled(lora):
            off = lora(**batch).logits
    return float((zero - expected).abs().max()), float((off - expected).abs().max())


def _shake(parameters: Iterable[Tensor], draw: torch.Generator) -> None:
    with torch.no_grad():
        for parameter in parameters:
            parameter += torch.randn(parameter.shape, generator=draw)
