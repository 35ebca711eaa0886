"""Texts that go on, scored by exact match: `python -m benchmarks.suites.tuning.completions FOLDER [SEEDS]`.

Two tasks for SmolLM2, 300 rows each: the last words of CounterFact's sentences (facts that the model may know
and has to say in one word), and sums in a format that it has to learn. The bare model, LoRA, a state and both
on the last six layers, with equally many numbers, at tune's rates; LoRA at higher rates too. Finished runs
are not repeated.
"""

import json
import os
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from attangent.tuning import TuningRequest, tune
from attangent.tuning.folders.tuned import load_tuned
from attangent.tuning.request import TrainingSettings
from benchmarks.suites.compression.bench_compress import smollm2_folder
from benchmarks.suites.tuning.data import counterfact_rarer_answers, read_table
from benchmarks.suites.tuning.decoders import METHODS as OF_EQUAL_SIZE

TRAIN, TEST = 300, 150
METHODS = {
    **OF_EQUAL_SIZE,
    **{f"lora at {rate:g}": replace(OF_EQUAL_SIZE["lora"], learning_rate=rate) for rate in (0.005, 0.02)},
}
Pair = tuple[str, str]


def facts(data: Path, folder: Path, seed: int) -> list[Pair]:
    """Sentences of CounterFact with the word that ends them."""
    rows = read_table(counterfact_rarer_answers(data, folder))
    return [(text, f" {label}") for text, label in random.Random(seed).sample(rows, TRAIN + TEST)]


def sums(data: Path, folder: Path, seed: int) -> list[Pair]:
    """Sums of two numbers below 100, all different, the answer between signs that no text has."""
    draw = random.Random(seed)
    pairs = draw.sample([(a, b) for a in range(10, 100) for b in range(10, 100)], TRAIN + TEST)
    return [(f"{a} and {b} make", f" <{a + b}>") for a, b in pairs]


TASKS = {"facts": facts, "sums": sums}


def write_rows(path: Path, rows: Sequence[Pair]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"prompt": p, "completion": c}) + "\n" for p, c in rows))
    return path


def exact(answers: Sequence[str], expected: Sequence[str]) -> float:
    """The share of answers that begin with what is expected and go on with another word or not at all.

    >>> exact([" Paris.", " Parisian", "Rome"], [" Paris", " Paris", " Rome"])
    0.6666666666666666
    """
    hits = [_begins(a.strip(), e.strip()) for a, e in zip(answers, expected, strict=True)]
    return sum(hits) / len(hits)


def _begins(answer: str, expected: str) -> bool:
    return answer.startswith(expected) and not answer[len(expected) :][:1].isalnum()


def answered(model: Any, tokenizer: Any, prompts: Sequence[str], batch: int = 25) -> list[str]:
    """What the model goes on with, greedily, a few tokens long."""
    tokenizer.padding_side = "left"
    found = []
    for start in range(0, len(prompts), batch):
        given = tokenizer(list(prompts[start : start + batch]), return_tensors="pt", padding=True)
        with torch.no_grad():
            out = model.generate(
                **given, max_new_tokens=6, do_sample=False, pad_token_id=tokenizer.pad_token_id
            )
        found += tokenizer.batch_decode(out[:, given["input_ids"].shape[1] :], skip_special_tokens=True)
    return found


def scored(data: Path, folder: Path, task: str, method: str, seed: int) -> dict[str, Any]:
    """Exact match of one method on one split."""
    rows = TASKS[task](data, folder, seed)
    train, test = rows[:TRAIN], rows[TRAIN:]
    parts = [write_rows(folder / f"{task}-{seed}-{n}.jsonl", rows) for n, rows in enumerate((train, test))]
    model, tokenizer, numbers = _bare() if method == "none" else _tuned(folder, task, method, seed, parts)
    answers = answered(model, tokenizer, [prompt for prompt, _ in test])
    match = exact(answers, [completion for _, completion in test])
    return {"task": task, "method": method, "seed": seed, "exact": match, **numbers}


def _bare() -> tuple[Any, Any, dict[str, float]]:
    from attangent.tuning.loading import load_model, load_tokenizer, pad_with

    model, tokenizer = load_model(smollm2_folder(), "causal-lm").eval(), load_tokenizer(smollm2_folder())
    pad_with(model, tokenizer)
    return model, tokenizer, {}


def _tuned(
    folder: Path, task: str, method: str, seed: int, parts: list[Path]
) -> tuple[Any, Any, dict[str, float]]:
    out = folder / task / method
    own = TuningRequest(
        str(smollm2_folder()),
        *parts,
        task="causal-lm",
        method=METHODS[method],
        training=TrainingSettings(seed=seed),
    )
    numbers = tune(own, out)[0]
    found = load_tuned(out / f"seed-{seed}")
    return found.model, found.tokenizer, {name: numbers[name] for name in ("parameters", "seconds")}


def main(folder: Path, seeds: int = 1) -> None:
    torch.set_num_threads(1)
    data, path = Path(os.environ["ATTANGENT_DATA"]), folder / "exact.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    for seed in range(seeds):
        for task in TASKS:
            for method in ("none", *METHODS):
                if not any((r["task"], r["method"], r["seed"]) == (task, method, seed) for r in done):
                    done.append(scored(data, folder, task, method, seed))
                    path.write_text("".join(json.dumps(run) + "\n" for run in done))
                    print(json.dumps(done[-1]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
