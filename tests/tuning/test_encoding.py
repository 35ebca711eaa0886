"""Texts to token ids, and batches."""

import pytest
import torch

from attangent import AttangentError
from attangent.tuning.data.text import Completion, TextExample, TextTask
from attangent.tuning.encoding import Padding, encode_completions, encode_task, stack
from attangent.tuning.loading import load_tokenizer
from tests.adapters.tiny import save_bert, save_llama


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return load_tokenizer(save_bert(tmp_path_factory.mktemp("bert")))


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return load_tokenizer(save_llama(tmp_path_factory.mktemp("llama")))


def task(*features):
    return TextTask((TextExample(features, 1), TextExample(features, 0)), ("no", "yes"))


def read(tokenizer, row):
    return tokenizer.decode(row["input_ids"])


def test_each_feature_is_cut_by_itself(bert):
    row = encode_task(task("the old cat sleeps", "a dog", "the red sun runs"), bert, max_tokens=3)[0]
    assert read(bert, row) == "[CLS] the old cat [SEP] a dog [SEP] the red sun [SEP]"
    assert row["labels"] == 1
    assert row["token_type_ids"] == [0] * 5 + [1] * 7


def test_features_are_lines_where_there_is_no_separator(llama):
    row = encode_task(task("the cat", "a dog"), llama, max_tokens=9)[0]
    assert read(llama, row) == "[CLS] the cat a dog"


def test_longer_than_the_model_takes_is_refused(bert):
    with pytest.raises(AttangentError, match="example 1 has 9 tokens with 3 per feature, the model takes 8"):
        encode_task(task("the old cat sleeps", "a red dog runs"), bert, max_tokens=3, model_limit=8)
    with pytest.raises(AttangentError, match="max_tokens is 0"):
        encode_task(task("a"), bert, max_tokens=0)


def test_only_the_completion_is_learnt(llama):
    (row,) = encode_completions([Completion("the cat", " runs")], llama, max_tokens=9)
    assert read(llama, row) == "[CLS] the cat runs [SEP]"
    assert row["labels"] == [-100, -100, -100, *row["input_ids"][-2:]]
    assert row["attention_mask"] == [1] * 5


def test_a_text_without_prompt_is_learnt_whole(llama):
    (row,) = encode_completions([Completion("", "the cat runs")], llama, max_tokens=9)
    assert row["labels"] == [-100, *row["input_ids"][1:]]


def test_the_prompt_does_not_end_before_the_completion(bert):
    (row,) = encode_completions([Completion("the cat", "runs")], bert, max_tokens=9)
    assert read(bert, row) == "[CLS] the cat [SEP] runs"  # no end token: BERT's separator stays in the prompt


def test_long_completions_are_refused(llama):
    with pytest.raises(AttangentError, match="example 2 has 7 tokens, at most 6 are allowed"):
        encode_completions([Completion("a", "b"), Completion("the old cat", "runs .")], llama, max_tokens=6)


def test_padding_pads_each_field_with_its_own_filler():
    rows = [
        {"input_ids": [5, 6], "attention_mask": [1, 1], "labels": [-100, 6]},
        {"input_ids": [7], "attention_mask": [1], "labels": [7]},
    ]
    batch = Padding(token=9, multiple=3)(rows)
    assert batch["input_ids"].tolist() == [[5, 6, 9], [7, 9, 9]]
    assert batch["attention_mask"].tolist() == [[1, 1, 0], [1, 0, 0]]
    assert batch["labels"].tolist() == [[-100, 6, -100], [7, -100, -100]]


def test_padding_of_hidden_states_and_class_labels():
    rows = [
        {"inputs_embeds": torch.ones(2, 4), "attention_mask": [1, 1], "labels": 1},
        {"inputs_embeds": torch.ones(3, 4), "attention_mask": [1, 1, 1], "labels": 0},
    ]
    batch = Padding(token=0, multiple=1)(rows)
    assert batch["inputs_embeds"].sum(dim=(1, 2)).tolist() == [8, 12]
    assert batch["labels"].tolist() == [1, 0]


def test_stack():
    batch = stack([{"pixel_values": torch.zeros(3, 2, 2), "labels": 1}] * 2)
    assert batch["pixel_values"].shape == (2, 3, 2, 2)
    assert batch["labels"].tolist() == [1, 1]


def test_a_chat_template_frames_the_prompt(tmp_path):
    tokenizer = load_tokenizer(save_llama(tmp_path))
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m.role }} : {{ m.content }} . {% endfor %}"
        "{% if add_generation_prompt %}answer :{% endif %}"
    )
    pair = Completion("the cat", " sleeps")
    (row,) = encode_completions([pair], tokenizer, 16, chat=True)
    assert tokenizer.decode(row["input_ids"]) == "[UNK] : the cat . answer : sleeps [SEP]"
    trained = [token for token in row["labels"] if token != -100]
    assert tokenizer.decode(trained) == "sleeps [SEP]"
    (plain,) = encode_completions([pair], tokenizer, 16)
    assert tokenizer.decode(plain["input_ids"]) == "[CLS] the cat sleeps [SEP]"
