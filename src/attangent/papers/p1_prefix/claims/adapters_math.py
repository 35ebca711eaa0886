"""Section 5, Figure 2: math inference with NTK-Attention, LoRA and zero-shot."""

import copy
import tempfile
from pathlib import Path
from typing import Any

import torch

from attangent._core.random import generator
from attangent.audit import Figure, Finding, Series, Settings, claim
from attangent.audit.checks import needs_adapters
from attangent.papers.p1_prefix.claims.small_tasks import RECIPE, entrants, gain_lines
from attangent.tuning.encoding import stack
from attangent.tuning.methods import adapt
from attangent.tuning.prepared import PreparedTask
from attangent.tuning.request import TrainingSettings
from attangent.tuning.trainer import make_trainer
from attangent.tuning.training import train

SIZE = 10
PLUS, EQUALS, ASKS, SAYS, FIRST = range(SIZE, SIZE + 5)


def problems(count: int, seed: int, stream: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw sums a + b modulo ten in the format of the base model and in a new format.

    The base model has seen `start a + b = c`; the questions to tune on read `start asks a b says c`.
    """
    a, b = torch.randint(SIZE, (2, count), generator=generator(seed, stream))
    start, plus, equals, asks, says = (torch.full_like(a, t) for t in (FIRST, PLUS, EQUALS, ASKS, SAYS))
    answer = (a + b) % SIZE
    return torch.stack([start, a, plus, b, equals, answer], 1), torch.stack(
        [start, asks, a, b, says, answer], 1
    )


def _rows(tokens: torch.Tensor) -> list[dict[str, Any]]:
    labels = tokens.clone()
    labels[:, :-1] = -100
    mask = torch.ones_like(tokens)
    return [
        {"input_ids": row, "attention_mask": ones, "labels": label}
        for row, ones, label in zip(tokens, mask, labels, strict=True)
    ]


def exact_match(model: Any, tokens: torch.Tensor) -> float:
    """Return the fraction of questions whose greedy answer is right."""
    device = next(model.parameters()).device
    prompts = tokens[:, :-1].to(device)
    with torch.no_grad():
        answers = (
            model.eval()(input_ids=prompts, attention_mask=torch.ones_like(prompts)).logits[:, -1].argmax(-1)
        )
    return float((answers.cpu() == tokens[:, -1]).float().mean())


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
        return _tuned(
            model, problems(settings.pretrain, seed, "base")[0], 3e-3, settings.pretrain_epochs, seed
        )


def _tuned(model: Any, tokens: torch.Tensor, rate: float, epochs: float, seed: int) -> Any:
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
    nature="experiment",
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
    for entrant in entrants(settings):
        adapted = adapt(copy.deepcopy(base), entrant.method, "causal-lm", seed, calibration)
        tuned = _tuned(adapted, questions, entrant.rates[0], settings.epochs, seed)
        scores[entrant.label] = exact_match(tuned, held)
    familiar = exact_match(base, problems(settings.test, seed, "familiar")[0])
    return _finding(scores, settings.test, familiar)


def _finding(scores: dict[str, float], tests: int, familiar: float) -> Finding:
    bars = Series.of("exact match", range(len(scores)), list(scores.values()), "bars")
    return Finding(
        conclusions=tuple(gain_lines(scores, ("LoRA", "no tuning"), tests, "exact match")),
        numbers={
            **{f"exact match, {label}": value for label, value in scores.items()},
            "exact match of the base model in its own format": familiar,
        },
        figures=(Figure("Sums in a new format", "", "exact match", (bars,), ticks=tuple(scores)),),
        smaller="a two-layer Llama that adds modulo ten for LLAMA-3.2-1B and -3B, sums in a new format "
        "for MetaMathQA, GSM8K and MATH",
        remark="A small Llama that adds modulo ten answers questions in a format it has not seen.",
    )
