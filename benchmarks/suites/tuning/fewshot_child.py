"""Train SetFit or FastFit in its own environment, for `benchmarks.suites.tuning.fresh`.

Run `PYTHON fewshot_child.py METHOD MODEL TRAIN TEST SEED TOKENS`; prints accuracy and processor time as
JSON. SetFit: its defaults (pairs by oversampling, batches of 16, 2e-5, logistic regression at the end), but
250 steps, because an epoch over all pairs of 300 rows has thousands. FastFit: the settings of its README
(batches of 32, 4 repeats, adafactor), but 5 epochs, not 40, and float32.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SETFIT_STEPS = 250
FASTFIT_EPOCHS = 5


def main(method: str, model: str, train: Path, test: Path, seed: int, tokens: int) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    began = time.process_time()
    accuracy = {"setfit": setfit, "fastfit": fastfit}[method](model, _rows(train), _rows(test), seed, tokens)
    return {"accuracy": accuracy, "processor_seconds": time.process_time() - began}


def _rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def setfit(model: str, train: list[Any], test: list[Any], seed: int, tokens: int) -> float:
    """Return SetFit's accuracy on the test rows."""
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    classifier = SetFitModel.from_pretrained(model)
    classifier.model_body.max_seq_length = tokens
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=SETFIT_STEPS,
            max_length=tokens,
            seed=seed,
            report_to="none",
            save_strategy="no",
            show_progress_bar=False,
        )
        Trainer(classifier, arguments, train_dataset=Dataset.from_list(train)).train()
    answers = classifier.predict([row["text"] for row in test])
    return _accuracy([str(answer) for answer in answers], test)


def fastfit(model: str, train: list[Any], test: list[Any], seed: int, tokens: int) -> float:
    """Return FastFit's accuracy on the test rows."""
    import datasets

    # FastFit loads its metric from the Hub; the score is computed here from its predictions.
    datasets.load_metric = lambda *_, **__: None
    from fastfit import FastFitTrainer

    parts = {"train": train, "validation": test, "test": test}
    with tempfile.TemporaryDirectory() as folder:
        trainer = FastFitTrainer(
            model_name_or_path=model,
            label_column_name="label",
            text_column_name="text",
            num_train_epochs=FASTFIT_EPOCHS,
            per_device_train_batch_size=32,
            per_device_eval_batch_size=64,
            max_text_length=tokens,
            dataloader_drop_last=False,
            num_repeats=4,
            optim="adafactor",
            clf_loss_factor=0.1,
            seed=seed,
            output_dir=folder,
            report_to="none",
            save_strategy="no",
            dataset=datasets.DatasetDict(
                {name: datasets.Dataset.from_list(rows) for name, rows in parts.items()}
            ),
        )
        trainer.train()
        scores = trainer.trainer.predict(trainer.eval_dataset, metric_key_prefix="test")
    return float((scores.predictions.argmax(-1) == scores.label_ids).mean())


def _accuracy(answers: list[str], test: list[Any]) -> float:
    right = [answer == row["label"] for answer, row in zip(answers, test, strict=True)]
    return sum(right) / len(right)


if __name__ == "__main__":
    name, model, train, test, seed, tokens = sys.argv[1:]
    print(json.dumps(main(name, model, Path(train), Path(test), int(seed), int(tokens))))
