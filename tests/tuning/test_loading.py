"""Models that can and cannot be loaded."""

import shutil
from pathlib import Path

import pytest

from attangent import AttangentError
from attangent.tuning.loading import load_model, load_tokenizer
from tests.adapters.tiny import save_bert


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return save_bert(tmp_path_factory.mktemp("bert"))


def test_a_checkpoint_without_a_part_of_the_model_is_refused(bert, tmp_path):
    from transformers import BertConfig, BertForMaskedLM

    BertForMaskedLM(BertConfig.from_pretrained(bert)).save_pretrained(tmp_path)  # has no pooler
    with pytest.raises(AttangentError, match=r"has no weights for bert\.pooler\.dense\.bias"):
        load_model(tmp_path, "classification", ("a", "b"))


def test_models_that_cannot_be_loaded(bert, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(AttangentError, match=r"has no config\.json"):
        load_model(tmp_path / "empty", "classification", ("a", "b"))


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("model.safetensors", lambda data: data[: len(data) // 2]),
        ("config.json", lambda data: data.replace(b'"type_vocab_size": 2', b'"type_vocab_size": "x"')),
        ("tokenizer.json", lambda data: data.replace(b'"id": 0', b'"id": "x"')),
    ],
)
def test_files_that_were_cut_off_or_damaged_are_refused_in_one_line(bert, tmp_path, name, spoil):
    folder = Path(shutil.copytree(bert, tmp_path / "model"))
    before = (folder / name).read_bytes()
    (folder / name).write_bytes(spoil(before))
    assert (folder / name).read_bytes() != before
    load = load_tokenizer if name == "tokenizer.json" else _classifier
    with pytest.raises(AttangentError, match="can be loaded from"):
        load(folder)


def _classifier(folder):
    return load_model(folder, "classification", ("a", "b"))
