"""Small models: NTK-Attention with LoRA (Section 4.2), and math inference (Section 5, Figure 2)."""

import copy
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.adapters.attaching import attach
from attangent.adapters.config import NTKConfig
from attangent.adapters.record import disabled, states_of
from attangent.audit import Conclusion, Finding, Settings, claim
from attangent.audit.checks import needs_adapters
from attangent.papers.common.bounds import comparison
from attangent.papers.common.figures import bars
from attangent.papers.p1_prefix.claims.small_tasks import (
    RECIPE,
    SMALL_LANGUAGE,
    gain_lines,
    language_trial,
    methods,
)
from attangent.papers.p1_prefix.head_to_head import PreparedTrial, runs_of
from attangent.tuning.encoding import stack
from attangent.tuning.methods import Method, adapt
from attangent.tuning.prepared import PreparedTask
from attangent.tuning.request import TrainingSettings
from attangent.tuning.trainer import make_trainer
from attangent.tuning.training import train


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
    combined = {
        "LoRA": Method("lora", rank=settings.rank, learning_rate=settings.lora_rate),
        "NTK": Method("ntk", ntk=state, learning_rate=settings.ntk_rate),
        "both": Method("ntk+lora", ntk=state, rank=settings.rank, learning_rate=settings.both_rate),
    }
    training = TrainingSettings(epochs=settings.epochs, batch=settings.batch)
    runs = runs_of(trial, combined, training, seed)
    size, loss = ({label: run[key] for label, run in runs.items()} for key in ("parameters", "train_loss"))
    accuracy = {label: run["test"]["accuracy"] for label, run in runs.items()}
    surplus = size["both"] - size["LoRA"] - size["NTK"]
    relative_loss = loss["both"] / min(loss["LoRA"], loss["NTK"])
    lead = accuracy["both"] - max(accuracy["LoRA"], accuracy["NTK"])
    zero, off = differences(trial, settings, seed)
    return Finding(
        conclusions=(
            Conclusion("largest change of the LoRA model by a zero state", "<=", 0.0, zero),
            Conclusion("largest difference from the LoRA model with the state off", "<=", 0.0, off),
            Conclusion("trainable parameters of both less the sum of the two", "==", 0.0, surplus),
            comparison(
                "training loss of both / of the better method alone", "<=", settings.slack, relative_loss
            ),
            comparison("test accuracy of both less that of the better method alone", ">=", 0.0, lead),
        ),
        numbers={f"test accuracy, {label}": value for label, value in accuracy.items()}
        | {f"training loss, {label}": value for label, value in loss.items()},
    )


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


SIZE = 10
PLUS, EQUALS, ASKS, SAYS, FIRST = range(SIZE, SIZE + 5)


def problems(count: int, seed: int, stream: str) -> tuple[Tensor, Tensor]:
    """Draw sums a + b modulo ten in the format of the base model and in a new format.

    The base model has seen `start a + b = c`; the questions to tune on read `start asks a b says c`.
    """
    a, b = torch.randint(SIZE, (2, count), generator=generator(seed, stream))
    start, plus, equals, asks, says = (torch.full_like(a, t) for t in (FIRST, PLUS, EQUALS, ASKS, SAYS))
    answer = (a + b) % SIZE
    familiar = torch.stack([start, a, plus, b, equals, answer], 1)
    return familiar, torch.stack([start, asks, a, b, says, answer], 1)


def _rows(tokens: Tensor) -> list[dict[str, Any]]:
    labels = tokens.clone()
    labels[:, :-1] = -100
    mask = torch.ones_like(tokens)
    return [
        {"input_ids": row, "attention_mask": ones, "labels": label}
        for row, ones, label in zip(tokens, mask, labels, strict=True)
    ]


def exact_match(model: Any, tokens: Tensor) -> float:
    """Return the fraction of questions whose greedy answer is right."""
    device = next(model.parameters()).device
    prompts = tokens[:, :-1].to(device)
    with torch.no_grad():
        logits = model.eval()(input_ids=prompts, attention_mask=torch.ones_like(prompts)).logits
    return float((logits[:, -1].argmax(-1).cpu() == tokens[:, -1]).float().mean())


def base_model(settings: Settings, seed: int) -> Any:
    """Train a small Llama to add in the first format."""
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=FIRST + 1,
            hidden_size=settings.width,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            intermediate_size=2 * settings.width,
            max_position_embeddings=8,
        )
        model = LlamaForCausalLM(config)
        sums = problems(settings.pretrain, seed, "base")[0]
        return _tuned(model, sums, 3e-3, settings.pretrain_epochs, seed)


def _tuned(model: Any, tokens: Tensor, rate: float, epochs: float, seed: int) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingSettings(epochs=epochs, batch=32, seed=seed)
        task = PreparedTask(model, "causal-lm", _rows(tokens), stack)
        train(make_trainer(task, rate, settings, Path(folder)))
    return model


@claim(
    "P1/figure-2",
    place="Section 5, Figure 2",
    title="Math inference: NTK-Attention is better than LoRA and zero-shot",
    quote="As we can see, our NTK-attention is better than the two baselines, LoRA and Zero-Shot",
    plain="""The paper finds NTK-Attention better than LoRA on math with Llama 3.2. We ran a two-layer
        model that adds modulo ten, which decides nothing about the paper.""",
    quick={
        **RECIPE,
        "epochs": 20,
        "width": 48,
        "pretrain": 2000,
        "pretrain_epochs": 8,
        "train": 96,
        "test": 400,
        "rank": 4,
        "features": 14,
        "ntk_rate": 0.03,
    },
    full={"train": 200, "epochs": 30},
    seeds=2,
    seconds=9.0,
)
@needs_adapters
def arithmetic(settings: Settings, seed: int) -> Finding:
    """Tuned by the paper's recipe (learning rate 0.001), a causal model with NTK-Attention solves at least as
    many math problems as with LoRA and as without tuning. A baseline's lead counts if it exceeds the 95 %
    confidence interval.
    """
    base = base_model(settings, seed)
    questions = problems(settings.train, seed, "questions")[1]
    held = problems(settings.test, seed, "test questions")[1]
    calibration = [{"input_ids": questions[:64], "attention_mask": torch.ones_like(questions[:64])}]
    scores = {"no tuning": exact_match(base, held)}
    for label, method in methods(settings).items():
        adapted = adapt(copy.deepcopy(base), method, "causal-lm", seed, calibration)
        tuned = _tuned(adapted, questions, method.rate, settings.epochs, seed)
        scores[label] = exact_match(tuned, held)
    familiar = exact_match(base, problems(settings.test, seed, "familiar")[0])
    return Finding(
        conclusions=tuple(gain_lines(scores, ("LoRA", "no tuning"), settings.test, "exact match")),
        numbers={
            **{f"exact match, {label}": value for label, value in scores.items()},
            "exact match of the base model in its own format": familiar,
        },
        figures=(bars("Sums in a new format", "exact match", scores),),
        smaller="a two-layer Llama that adds modulo ten for LLAMA-3.2-1B and -3B, sums in a new format "
        "for MetaMathQA, GSM8K and MATH",
        remark="A small Llama that adds modulo ten answers questions in a format it has not seen.",
    )
