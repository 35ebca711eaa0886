"""Time and memory of `tune`'s default steps, against peft's LoRA with transformers' Trainer.

Run `python -m benchmarks.suites.tuning.step_cost`. MiniLM, batches of 16 rows of 48 tokens, one thread. Six
rounds train both for 10 steps, in alternating order; prints the median processor seconds per step and their
ratio by round, and the peak memory of a process for each. Only training is timed: not the start, not the
refit at the end.
"""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

STEPS = 10
BATCH = 16
TOKENS = 48
ROUNDS = 6


def rows() -> list[dict[str, Any]]:
    """Return rows of random words, all of one length."""
    import torch

    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(2000, 20000, (STEPS * BATCH, TOKENS), generator=draw).tolist()
    return [{"input_ids": row, "attention_mask": [1] * TOKENS, "labels": n % 3} for n, row in enumerate(ids)]


def of_tune(folder: Path) -> Any:
    """Return the trainer that `tune` uses."""
    from attangent.tuning.encoding import Padding
    from attangent.tuning.loading import load_base
    from attangent.tuning.methods import Method, adapt
    from attangent.tuning.prepared import PreparedTask
    from attangent.tuning.request import TrainingSettings
    from attangent.tuning.trainer import make_trainer
    from benchmarks.suites.tuning.data import minilm

    base = load_base(minilm(), "classification", ("a", "b", "c"), pooling="normalised")
    model = adapt(base, Method("lora"), "classification", 0)
    task = PreparedTask(model, "classification", rows(), Padding(0))
    return make_trainer(task, 2e-3, TrainingSettings(epochs=1, batch=BATCH), folder)


def of_peft(folder: Path) -> Any:
    """Return transformers' Trainer with peft's LoRA, as peft's documentation sets it up."""
    from peft import LoraConfig, TaskType, get_peft_model
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
    )

    from benchmarks.suites.tuning.data import minilm

    base = AutoModelForSequenceClassification.from_pretrained(minilm(), num_labels=3)
    config = LoraConfig(
        task_type=TaskType.SEQ_CLS, r=8, lora_alpha=16, target_modules=["query", "value"], lora_dropout=0.0
    )
    arguments = TrainingArguments(
        str(folder),
        num_train_epochs=1,
        per_device_train_batch_size=BATCH,
        learning_rate=2e-3,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
    )
    collate = DataCollatorWithPadding(AutoTokenizer.from_pretrained(minilm()))
    data: Any = rows()
    return Trainer(get_peft_model(base, config), arguments, train_dataset=data, data_collator=collate)


def measure(name: str) -> dict[str, float]:
    """Train in this process; return processor seconds per step and this process's peak memory in MB."""
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        trainer = {"tune": of_tune, "peft": of_peft}[name](Path(folder))
        began = time.process_time()
        trainer.train()
        seconds = (time.process_time() - began) / STEPS
    return {"seconds": seconds, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def memory_of(name: str) -> float:
    """Return the peak memory of a process that trains this way, in MB."""
    command = [sys.executable, "-m", "benchmarks.suites.tuning.step_cost", name]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ran.stdout.splitlines()[-1])["memory"]


def main() -> None:
    seconds: dict[str, list[float]] = {"tune": [], "peft": []}
    # First, while this process is small: a child's peak includes the memory of the process that forked it.
    memory = {name: memory_of(name) for name in seconds}
    for number in range(ROUNDS):
        for name in ("tune", "peft")[:: 1 if number % 2 else -1]:
            seconds[name].append(measure(name)["seconds"])
    ratios = [a / b for a, b in zip(seconds["tune"], seconds["peft"], strict=True)]
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
    print(f"seconds per step: {middle}, ratio {statistics.median(ratios):.3f} ({spread})")
    print(f"MB: {memory}, ratio {memory['tune'] / memory['peft']:.3f}")


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1]))) if sys.argv[1:] else main()
