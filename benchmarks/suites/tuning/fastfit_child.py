"""Train FastFit in its own environment, for `benchmarks.suites.tuning.fresh`.

Run `PYTHON fastfit_child.py MODEL TRAIN TEST SEED TOKENS`; prints accuracy and processor time as JSON. The
environment holds fast-fit 1.2.1, transformers below 5 and datasets below 3. Settings of FastFit's README
(batches of 32, Adafactor, classification loss of weight .1), but each text once per batch, the default of
its code, instead of four times, and 250 steps: as many texts as SetFit reads.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

STEPS = 250


class _Metric:
    """Accuracy, for FastFit's own scoring: `datasets.load_metric` would download it."""

    def compute(self, predictions: Any, references: Any) -> dict[str, float]:
        return {"accuracy": float((predictions == references).mean())}


def main(model: str, train: Path, test: Path, seed: int, tokens: int) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    began = time.process_time()
    accuracy = fastfit(model, _rows(train), _rows(test), seed, tokens)
    return {"accuracy": accuracy, "processor_seconds": time.process_time() - began}


def _rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def fastfit(model: str, train: list[Any], test: list[Any], seed: int, tokens: int) -> float:
    """Return FastFit's accuracy on the test rows."""
    import fastfit.train as library  # pyright: ignore[reportMissingImports]
    from datasets import Dataset, DatasetDict

    library.load_metric = lambda *_, **__: _Metric()
    parts = {"train": train, "validation": test[:2], "test": test}
    with tempfile.TemporaryDirectory() as folder:
        trainer = library.FastFitTrainer(
            dataset=DatasetDict({name: Dataset.from_list(rows) for name, rows in parts.items()}),
            model_name_or_path=model,
            output_dir=folder,
            label_column_name="label",
            text_column_name="text",
            max_steps=STEPS,
            per_device_train_batch_size=32,
            per_device_eval_batch_size=64,
            max_text_length=tokens,
            num_repeats=1,
            optim="adafactor",
            clf_loss_factor=0.1,
            seed=seed,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer.train()
        return trainer.test()["eval_accuracy"]


if __name__ == "__main__":
    model, train, test, seed, tokens = sys.argv[1:]
    print(json.dumps(main(model, Path(train), Path(test), int(seed), int(tokens))))
