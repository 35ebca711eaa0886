"""Train SetFit in its own environment, for `benchmarks.suites.tuning.fresh`.

Run `PYTHON setfit_child.py MODEL TRAIN TEST SEED TOKENS`; prints accuracy and processor time as JSON. The
environment holds setfit (1.2.0 in the last runs) and transformers below 5. SetFit's defaults (pairs by
oversampling, batches of 16, 2e-5, logistic regression at the end), but 250 steps, because an epoch over all
pairs of 300 rows has thousands.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

STEPS = 250


def main(model: str, train: Path, test: Path, seed: int, tokens: int) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    began = time.process_time()
    return {
        "accuracy": setfit(model, _rows(train), _rows(test), seed, tokens),
        "processor_seconds": time.process_time() - began,
    }


def _rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def setfit(model: str, train: list[Any], test: list[Any], seed: int, tokens: int) -> float:
    """Return SetFit's accuracy on the test rows."""
    from datasets import Dataset
    from setfit import (  # pyright: ignore[reportMissingImports]
        SetFitModel,
        Trainer,
        TrainingArguments,
    )

    classifier = SetFitModel.from_pretrained(model)
    classifier.model_body.max_seq_length = tokens
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=STEPS,
            max_length=tokens,
            seed=seed,
            report_to="none",
            save_strategy="no",
            show_progress_bar=False,
        )
        Trainer(classifier, arguments, train_dataset=Dataset.from_list(train)).train()
    answers = classifier.predict([row["text"] for row in test])
    return _accuracy([str(answer) for answer in answers], test)


def _accuracy(answers: list[str], test: list[Any]) -> float:
    right = [answer == row["label"] for answer, row in zip(answers, test, strict=True)]
    return sum(right) / len(right)


if __name__ == "__main__":
    model, train, test, seed, tokens = sys.argv[1:]
    print(json.dumps(main(model, Path(train), Path(test), int(seed), int(tokens))))
