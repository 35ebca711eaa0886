"""What is asked of a run, checked before any work."""

from dataclasses import replace

import pytest

from attangent import AttangentError
from attangent.tuning.methods import Method
from attangent.tuning.request import TuningRequest
from tests.adapters.tiny import save_bert, write_images, write_rows


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = save_bert(tmp_path_factory.mktemp("bert"))
    write_rows(folder / "train.jsonl", 24)
    write_rows(folder / "eval.jsonl", 16, seed=1)
    return folder


def tuning(folder, **own):
    files = {"train": folder / "train.jsonl", "evaluate": folder / "eval.jsonl"}
    return TuningRequest(str(folder), **{**files, **own})


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"task": "ranking"}, "task is 'ranking'"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"pooling": "max"}, "pooling is 'max'"),
        ({"start": "warm"}, "start is 'warm'"),
        ({"evaluate": "none.jsonl"}, "there is no"),
    ],
)
def test_early_errors(bert, own, message):
    own = {name: bert / value if name == "evaluate" else value for name, value in own.items()}
    with pytest.raises(AttangentError, match=message):
        tuning(bert, **own)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"method": Method("probe"), "start": "random"}, "start has no effect on the method probe"),
        ({"task": "causal-lm", "start": "random"}, "start has no effect on causal-lm"),
        ({"task": "causal-lm", "pooling": "mean"}, "pooling has no effect on causal-lm"),
        ({"train": "images", "evaluate": None, "pooling": "mean"}, "pooling has no effect on image-class"),
    ],
)
def test_settings_without_effect_are_refused(bert, tmp_path, own, message):
    images = write_images(tmp_path / "images", 2, 0)
    own = {name: images if value == "images" else value for name, value in own.items()}
    with pytest.raises(AttangentError, match=message):
        tuning(bert, **own)


def test_a_folder_and_a_file_do_not_go_together(bert):
    with pytest.raises(AttangentError, match="a folder and a file"):
        tuning(bert, evaluate=bert)


def test_the_default_method_is_lora(bert, tmp_path):
    images = {"train": write_images(tmp_path / "images", 2, 0), "evaluate": None}
    lora = tuning(bert, **images).method
    assert tuning(bert).method == Method("lora")
    assert tuning(bert, task="causal-lm").method == Method("lora")
    assert (lora.name, lora.rank, lora.peft) == ("lora", 8, {"use_rslora": True})
    assert tuning(bert, method=Method(), **images).method.name == "ntk"
    assert replace(tuning(bert, **images), max_tokens=8).method == lora
