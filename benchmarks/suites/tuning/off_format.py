"""A format learned from 48 rows, and what is left of the model outside it.

Run `python -m benchmarks.suites.tuning.off_format OUT [TASK ...]`. SmolLM2-135M with its chat template; 48
rows to train on, 40 held out. `sums` (answers between signs) and `relations` (subject -> object of a
sentence) served for choosing; `numbers` (all numbers of a problem, in order) did not. Methods: `tune`'s
default for completions, and LoRA without the KL term. Prints and appends to OUT/runs.jsonl, where finished
runs are not repeated:

- exact match and loss per token on the held-out rows;
- outside: the perplexity of 12 texts as answers to their questions, relative to the base model's (`sums` and
  `relations`: solutions of GSM8K; `numbers`: passages of BoolQ), and how often the most likely next token is
  the base model's;
- bleeding: the share of these 12 questions that get an answer in the format.
"""

import csv
import gzip
import json
import math
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor

from attangent.tuning import completions
from attangent.tuning.data.text import Completion
from attangent.tuning.encoding import Padding, encode_completions, prompt_ids
from attangent.tuning.loading import load_model, load_tokenizer, pad_with
from attangent.tuning.methods import Method
from attangent.tuning.prepared import PreparedTask
from attangent.tuning.request import TrainingSettings
from attangent.tuning.running import run_method
from benchmarks.suites.compression.bench_compress import smollm2_folder

TRAIN = 48
HELD = 40
OUTSIDE = 12
MAX_TOKENS = 256
METHODS = ("default", "no KL term")
_SPARE_TOKENS = 4
_ANSWER_TOKENS = 12


def sums(data: Path) -> list[Completion]:
    """Sums of two numbers, all different, the answer between signs."""
    pairs = [(a, b) for a in range(10, 100) for b in range(10, 100)]
    chosen = random.Random(11).sample(pairs, TRAIN + HELD)
    return [Completion(f"{a} and {b} make", f"<{a + b}>") for a, b in chosen]


def relations(data: Path) -> list[Completion]:
    """Sentences of CounterFact, to be written as subject -> object."""
    with gzip.open(data / "counterfact/counterfact_true_false.csv.gz", "rt") as file:
        true = [row for row in csv.DictReader(file) if row["label"] == "1"]
    rows = list({row["subject"]: row for row in true}.values())
    random.Random(11).shuffle(rows)
    sentences = [f"{row['relation'].replace('{}', row['subject'])} {row['target']}." for row in rows]
    objects = [f"{row['subject']} -> {row['target']}" for row in rows]
    pairs = list(zip(sentences, objects, strict=True))[: TRAIN + HELD]
    return [Completion(*pair) for pair in pairs]


def numbers(data: Path) -> list[Completion]:
    """Problems of GSM8K; the answer lists their numbers."""
    problems = [row["question"] for row in _json_lines(data / "gsm8k/test.jsonl.gz")]
    random.Random(11).shuffle(problems)
    listed = [(text, re.findall(r"\d+", text)) for text in problems if len(text) < 160 and "," not in text]
    return [Completion(text, "; ".join(found)) for text, found in listed if len(found) > 1][: TRAIN + HELD]


def solutions(data: Path) -> list[Completion]:
    """Short problems of GSM8K with the start of their solutions."""
    rows = [row for row in _json_lines(data / "gsm8k/train.jsonl.gz") if len(row["question"]) < 150]
    return [Completion(row["question"], row["answer"][:150]) for row in rows[:OUTSIDE]]


def passages(data: Path) -> list[Completion]:
    """Questions of BoolQ with the start of the passage that answers them."""
    rows = _json_lines(data / "superglue/BoolQ/val.jsonl.gz")[:OUTSIDE]
    return [Completion(f"{row['question'].capitalize()}?", row["passage"][:150]) for row in rows]


@dataclass(frozen=True)
class FormatTask:
    """Rows in a format, a pattern that tells the format, and texts outside it."""

    rows: Callable[[Path], list[Completion]]
    pattern: str
    outside: Callable[[Path], list[Completion]]


TASKS = {
    "sums": FormatTask(sums, r"^\s*<\d+>", solutions),
    "relations": FormatTask(relations, r" -> ", solutions),
    "numbers": FormatTask(numbers, r"^\s*\d+(; \d+)+", passages),
}


def _json_lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def text_scores(model: Any, rows: list[Any], collate: Padding) -> tuple[float, list[Tensor]]:
    """Return the mean loss per token of the completions, and the most likely token at each position."""
    losses = []
    likely = []
    with torch.no_grad():
        for row in rows:
            batch = collate([row])
            labels = batch.pop("labels")[:, 1:]
            logits = model(**batch).logits[:, :-1][labels != -100]
            losses.append(F.cross_entropy(logits, labels[labels != -100], reduction="none"))
            likely.append(logits.argmax(-1))
    return float(torch.cat(losses).mean()), likely


def answers(model: Any, tokenizer: Any, prompts: list[str], tokens: int) -> list[str]:
    """Answer all prompts with the most likely tokens."""
    ids = [prompt_ids(prompt, tokenizer, True) for prompt in prompts]
    longest = max(map(len, ids))
    padded = torch.tensor([[tokenizer.pad_token_id] * (longest - len(row)) + row for row in ids])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in ids])
    options = {"max_new_tokens": tokens, "do_sample": False, "pad_token_id": tokenizer.pad_token_id}
    with torch.no_grad():
        output = model.generate(input_ids=padded, attention_mask=mask, **options)
    return tokenizer.batch_decode(output[:, longest:], skip_special_tokens=True)


def one_run(name: str, method: str, data: Path) -> dict[str, Any]:
    """Train one method on one task and score it inside and outside the format."""
    task = TASKS[name]
    pairs = task.rows(data)
    outside = task.outside(data)
    tokenizer = load_tokenizer(smollm2_folder())
    model = load_model(smollm2_folder(), "causal-lm").eval()
    pad_with(model, tokenizer)
    collate = Padding(tokenizer.pad_token_id)
    parts = (pairs[:TRAIN], pairs[TRAIN:], outside)
    train, held, texts = (encode_completions(part, tokenizer, MAX_TOKENS, chat=True) for part in parts)
    before, likely = text_scores(model, texts, collate)
    prepared = PreparedTask(model, "causal-lm", train, collate, tokenizer=tokenizer, chat=True)
    began = time.process_time()
    weight = completions.KL_WEIGHT if method == "default" else 0.0
    with mock.patch.object(completions, "KL_WEIGHT", weight), tempfile.TemporaryDirectory() as folder:
        tuned = run_method(
            prepared, Method("lora"), TrainingSettings(), "closed-form", Path(folder)
        ).model.eval()
    seconds = time.process_time() - began
    after, now_likely = text_scores(tuned, texts, collate)
    same = torch.cat([first == second for first, second in zip(likely, now_likely, strict=True)])
    longest = max(len(tokenizer(pair.text)["input_ids"]) for pair in pairs) + _SPARE_TOKENS
    given = answers(tuned, tokenizer, [pair.prompt for pair in pairs[TRAIN:]], longest)
    right = [answer.strip() == pair.text for answer, pair in zip(given, pairs[TRAIN:], strict=True)]
    elsewhere = answers(tuned, tokenizer, [pair.prompt for pair in outside], _ANSWER_TOKENS)
    return {
        "task": name,
        "method": method,
        "exact": sum(right) / len(right),
        "held_out_loss": text_scores(tuned, held, collate)[0],
        "perplexity_ratio": math.exp(after - before),
        "same_token": float(same.double().mean()),
        "bleeding": sum(bool(re.search(task.pattern, answer)) for answer in elsewhere) / len(elsewhere),
        "processor_seconds": seconds,
    }


def main(out: Path, names: list[str]) -> None:
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "runs.jsonl"
    lines = path.read_text().splitlines() if path.is_file() else []
    done = {(run["task"], run["method"]) for run in map(json.loads, lines)}
    for name in names or list(TASKS):
        for method in METHODS:
            if (name, method) not in done:
                run = one_run(name, method, Path(os.environ["ATTANGENT_DATA"]))
                with path.open("a") as file:
                    file.write(json.dumps(run) + "\n")
                print(json.dumps(run), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
