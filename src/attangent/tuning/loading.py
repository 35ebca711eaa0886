"""Models and tokenizers by hub id or folder, with a head for the task."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from attangent._core.errors import AttangentError, loading
from attangent._core.settings import read_json
from attangent.adapters.hub import check_model_name, load_pretrained
from attangent.tuning.methods import is_head
from attangent.tuning.methods.classifier import classifier_names
from attangent.tuning.precision import hold_head_in_float32
from attangent.tuning.tasks import NEEDS, TaskKind

_SAVED = ("config.json", "tokenizer_config.json")


def load_model(
    model: str | Path,
    kind: TaskKind,
    labels: Sequence[str] = (),
    seed: int = 0,
    revision: str | None = None,
) -> Any:
    """The model with a head for these labels or for one number, its first weights drawn by the seed."""
    import transformers

    needs = NEEDS[kind]
    named: dict[str, Any] = {} if revision is None else {"revision": revision}
    if needs.values:
        named |= {"num_labels": 1, "problem_type": "regression", "ignore_mismatched_sizes": True}
    elif needs.classifier:
        named["id2label"] = dict(enumerate(labels))
        named["label2id"] = {name: number for number, name in enumerate(labels)}
        named["ignore_mismatched_sizes"] = True
    with torch.random.fork_rng(devices=[]), _quiet():
        torch.manual_seed(seed)
        loaded, report = _given(
            getattr(transformers, needs.auto_class), model, "model", {**named, "output_loading_info": True}
        )
    _check_complete(model, report["missing_keys"])
    if loaded.dtype == torch.bfloat16 and needs.classifier:
        hold_head_in_float32(loaded, classifier_names(loaded, kind))
    return loaded.float() if loaded.dtype == torch.float16 else loaded


def load_tokenizer(model: str | Path) -> Any:
    """The model's tokenizer; one without a padding token pads with its end token."""
    import transformers

    tokenizer = _given(transformers.AutoTokenizer, model, "tokenizer", {})
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.pad_token_id is None:
        raise AttangentError(
            f"the tokenizer of {model} has neither a padding nor an end token; add one to it"
        )
    return tokenizer


def pad_with(model: Any, tokenizer: Any) -> None:
    """Tell the model the padding token, so that it can find the last token of a row."""
    if getattr(model.config, "pad_token_id", None) is None:
        model.config.pad_token_id = tokenizer.pad_token_id


def preprocessor_of(model: str | Path) -> dict[str, Any]:
    """The settings in a folder's preprocessor_config.json; none where there is no such file."""
    path = Path(model) / "preprocessor_config.json"
    return read_json(path) if path.is_file() else {}


def model_limit(model: Any) -> int | None:
    """How many tokens the model takes at most, where its positions are a table."""
    return getattr(model.config, "max_position_embeddings", None)


def _given(auto_class: Any, model: str | Path, what: str, named: dict[str, Any]) -> Any:
    folder = Path(model)
    if folder.is_dir() and not any((folder / name).is_file() for name in _SAVED):
        raise AttangentError(f"{folder} has no config.json; give the folder of a saved model or a hub id")
    check_model_name(model)
    with loading(f"no {what} can be loaded from {model}"):
        return load_pretrained(auto_class, model, **named)


def _check_complete(model: str | Path, missing: Iterable[str]) -> None:
    """Only a head may be new: anything else would stay random, frozen and unsaved."""
    odd = sorted(name for name in missing if not is_head(name))
    if odd:
        raise AttangentError(
            f"{model} has no weights for {', '.join(odd[:4])}: they would stay random; "
            "give a checkpoint that has them"
        )


class _quiet:
    """No report that a new head is new, and no bar for weights that are read in a moment."""

    def __enter__(self) -> None:
        from transformers.utils import logging

        self._before, self._bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
        logging.set_verbosity_error()
        logging.disable_progress_bar()

    def __exit__(self, *_: object) -> None:
        from transformers.utils import logging

        logging.set_verbosity(self._before)
        if self._bar:
            logging.enable_progress_bar()
