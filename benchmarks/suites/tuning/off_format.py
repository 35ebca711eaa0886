"""A format learned from 60 rows, and what is left of the model outside it.

Run `python -m benchmarks.suites.tuning.off_format OUT`. SmolLM2, sums in a format that it has to learn (48
rows to train on, 12 to score), after each of four epochs: held-out loss and the perplexity of 12 GSM8K
solutions as chat answers, relative to the base model; exact match at the end. A state and LoRA at two
rates, with and without a KL term: KL(base || tuned) on 32 texts that the base model sampled. Settings of
`tune` are chosen here, so that nothing is reported from here but this comparison. Finished runs in
OUT/runs.jsonl are not repeated.
"""

import copy
import gzip
import json
import math
import os
import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attangent.tuning.data.text import Completion
from attangent.tuning.encoding import Padding, encode_completions, prompt_ids
from attangent.tuning.loading import load_model, load_tokenizer, pad_with
from attangent.tuning.methods import Method
from attangent.tuning.prepared import PreparedTask
from attangent.tuning.request import TrainingSettings
from attangent.tuning.running import StartedMethod, start_method
from attangent.tuning.trainer import SeededOrder, optimiser
from benchmarks.suites.compression.bench_compress import smollm2_folder

EPOCHS = 4
BATCH = 16
TRAIN = 48
HELD = 12
SAMPLES = 32
SAMPLE_TOKENS = 32
RUNS = (
    ("lora", 5e-3, 0.0),
    ("lora", 5e-3, 1.0),
    ("ntk", None, 0.0),
    ("lora", 2e-3, 0.0),
    ("lora", 2e-2, 0.0),
)
"""Method, learning rate (None is the default) and weight of the KL term."""


def rows_of(data: Path) -> tuple[list[Completion], list[Completion], list[Completion]]:
    """Return the rows to train on, the held-out rows, and the rows outside the format."""
    pairs = sums(random.Random(7))
    with gzip.open(data / "gsm8k/train.jsonl.gz", "rt") as file:
        others = [row for row in map(json.loads, file) if len(row["question"]) < 150][:HELD]
    outside = [Completion(row["question"], row["answer"][:150]) for row in others]
    return pairs[:TRAIN], pairs[TRAIN:], outside


def sums(draw: random.Random) -> list[Completion]:
    """Return sums of two numbers, all different, the answer between signs."""
    pairs = draw.sample([(a, b) for a in range(10, 100) for b in range(10, 100)], TRAIN + HELD)
    return [Completion(f"{a} and {b} make", f" <{a + b}>") for a, b in pairs]


def base_samples(model: Any, tokenizer: Any) -> Tensor:
    """Return texts that the model samples from the start of a chat's answer to nothing in particular."""
    torch.manual_seed(0)
    start = torch.tensor([prompt_ids(" ", tokenizer, True)]).repeat(SAMPLES, 1)
    with torch.no_grad():
        return model.generate(
            input_ids=start,
            attention_mask=torch.ones_like(start),
            min_new_tokens=SAMPLE_TOKENS,
            max_new_tokens=SAMPLE_TOKENS,
            do_sample=True,
            pad_token_id=tokenizer.pad_token_id,
        )


def kl_to(model: Any, ids: Tensor, log_probs: Tensor) -> Tensor:
    """Return the mean over tokens of KL(base || model)."""
    logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[:, -SAMPLE_TOKENS:]
    divergence = F.kl_div(logits.log_softmax(-1), log_probs, log_target=True, reduction="none")
    return divergence.sum(-1).mean()


def loss_on(model: Any, rows: list[Any], collate: Any) -> float:
    """Return the mean loss per token of the completions."""
    with torch.no_grad():
        losses = [float(model(**collate([row])).loss) for row in rows]
    counts = [sum(label != -100 for label in row["labels"]) for row in rows]
    return sum(loss * count for loss, count in zip(losses, counts, strict=True)) / sum(counts)


def exact_match(model: Any, tokenizer: Any, pairs: list[Completion]) -> float:
    hits = 0
    for pair in pairs:
        ids = torch.tensor([prompt_ids(pair.prompt, tokenizer, True)])
        options = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": tokenizer.pad_token_id}
        with torch.no_grad():
            out = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **options)
        text = tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)
        hits += text.strip() == pair.text.strip()
    return hits / len(pairs)


def one_run(name: str, rate: float | None, weight: float, data: Path) -> dict[str, Any]:
    """Train one method and score it after each epoch."""
    tokenizer = load_tokenizer(smollm2_folder())
    base = load_model(smollm2_folder(), "causal-lm").eval()
    pad_with(base, tokenizer)
    parts = rows_of(data)
    train, held, outside = (encode_completions(part, tokenizer, 256, chat=True) for part in parts)
    collate = Padding(tokenizer.pad_token_id)
    before = loss_on(base, outside, collate)
    method = Method.from_dict({"name": name} | ({} if rate is None else {"learning_rate": rate}))
    task = PreparedTask(copy.deepcopy(base), "causal-lm", train, collate, tokenizer=tokenizer)
    started = start_method(task, method, TrainingSettings(epochs=EPOCHS), "closed-form")
    model = started.task.model
    samples = base_samples(base, tokenizer) if weight else None
    record: list[dict[str, float]] = []
    for _ in epochs_of(started, method, partial(penalty, model, base, samples, weight)):
        ratio = math.exp(loss_on(model, outside, collate) - before)
        record.append({"held_out_loss": loss_on(model, held, collate), "perplexity_ratio": ratio})
        print(name, rate, weight, record[-1], flush=True)
    exact = exact_match(model.eval(), tokenizer, parts[1])
    return {"method": name, "rate": started.rate, "kl": weight, "exact": exact, "epochs": record}


def penalty(model: Any, base: Any, samples: Tensor | None, weight: float) -> Tensor | float:
    """Return the weighted KL term on some of the base model's samples; 0 without samples."""
    if samples is None:
        return 0.0
    chosen = samples[torch.randperm(len(samples))[:8]]
    with torch.no_grad():
        target = base(input_ids=chosen).logits[:, -SAMPLE_TOKENS:].log_softmax(-1)
    return weight * kl_to(model, chosen, target)


def epochs_of(started: StartedMethod, method: Method, extra: Callable[[], Any]) -> Iterator[int]:
    """Train as `tune` does, with an extra term in the loss; yield after each epoch, in evaluation mode."""
    model = started.task.model
    rows = started.task.train
    optimisation = optimiser(model, started.rate, started.training, method.technique.rate_scale)
    total = EPOCHS * -(-TRAIN // BATCH)
    # The schedule of `tune`: the first tenth of the steps is warm-up, then the rate falls to zero.
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimisation, lambda step: min(step / 2, (total - step) / (total - 2))
    )
    order = SeededOrder(TRAIN, 0)
    for epoch in range(EPOCHS):
        model.train()
        order.set_epoch(epoch)
        indices = list(order)
        for first in range(0, TRAIN, BATCH):
            batch = started.task.collate([rows[i] for i in indices[first : first + BATCH]])
            (model(**batch).loss + extra()).backward()
            torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
            optimisation.step()
            optimisation.zero_grad()
            schedule.step()
        model.eval()
        yield epoch


def main(out: Path) -> None:
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "runs.jsonl"
    done = path.read_text().splitlines() if path.is_file() else []
    for run in RUNS[len(done) :]:
        result = one_run(*run, Path(os.environ["ATTANGENT_DATA"]))
        with path.open("a") as file:
            file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
