import pytest

from tests.adapters.tiny import save_bert, save_llama, write_rows


def _with_rows(folder):
    write_rows(folder / "train.jsonl", 28)
    write_rows(folder / "eval.jsonl", 16, seed=1)
    return folder


@pytest.fixture(scope="session")
def bert(tmp_path_factory):
    return _with_rows(save_bert(tmp_path_factory.mktemp("planning-bert")))


@pytest.fixture(scope="session")
def llama(tmp_path_factory):
    return _with_rows(save_llama(tmp_path_factory.mktemp("planning-llama")))
