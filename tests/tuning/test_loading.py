"""Models that can and cannot be loaded."""

import pytest

from attangent import AttangentError
from attangent.tuning.loading import load_model
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
