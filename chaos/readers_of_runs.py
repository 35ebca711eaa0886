"""Readers of what earlier runs have left: tuned models, compressed prompts, settings."""

import copy
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from chaos.jobs import prompt, rows, small_decoder, small_encoder


@cache
def _tuned() -> Path:
    from attangent.tuning import Method, TrainingSettings, TuningRequest, tune

    place = Path.cwd() / "inputs" / "tuned"
    if not place.is_dir():
        training = TrainingSettings(epochs=1)
        tune(TuningRequest(small_encoder(), rows(), method=Method("head"), training=training), place)
    return place / "seed-0"


@cache
def _compressed() -> Path:
    from attangent import compress

    place = Path.cwd() / "inputs" / "compressed"
    model, tokenizer = _decoder()
    compress(model, tokenizer, prompt().read_text(), size=8).save(model, place)
    return place


@cache
def _decoder() -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place = small_decoder()
    return AutoModelForCausalLM.from_pretrained(place), AutoTokenizer.from_pretrained(place)


def of_tuned(spoilt: str) -> Callable[[Path], Path]:
    def good(folder: Path) -> Path:
        shutil.copytree(_tuned(), folder, dirs_exist_ok=True)
        return folder / spoilt

    return good


def load_tuned(folder: Path) -> Any:
    from attangent import load_tuned

    return load_tuned(folder).predict(["the cat"]) and None


def of_compressed(spoilt: str) -> Callable[[Path], Path]:
    def good(folder: Path) -> Path:
        shutil.copytree(_compressed(), folder, dirs_exist_ok=True)
        return folder / spoilt

    return good


def load_compressed(folder: Path) -> Any:
    from attangent.compression.result import load_compressed

    model, tokenizer = _decoder()
    return load_compressed(copy.deepcopy(model), tokenizer, folder) and None


def of_settings(folder: Path) -> Path:
    text = '[method]\nname = "ntk"\nrank = 8\n\n[method.ntk]\nfeatures = "elu"\n\n[training]\nepochs = 1\n'
    (folder / "tune.toml").write_text(text)
    return folder / "tune.toml"


def read_settings(folder: Path) -> Any:
    from attangent._core.files import read_toml, settings_of
    from attangent.tuning import Method, TrainingSettings

    found = read_toml(folder / "tune.toml")
    Method.from_dict(found.get("method", {}))
    settings_of(TrainingSettings, found.get("training", {}), "training")
