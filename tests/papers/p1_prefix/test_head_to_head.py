"""Splits of a data set, settings that are refused, and a model cut below its top layers."""

import copy
import json
from pathlib import Path

import pytest
import torch

from attangent import AttangentError
from attangent.papers.p1_prefix.head_to_head import TaskSplit, prepare_trial, split_task, split_trunk
from attangent.tuning.data.text import read_task
from attangent.tuning.encoding import Padding, encode_task
from attangent.tuning.loading import load_model, load_tokenizer
from attangent.tuning.methods import Method, adapt
from tests.adapters.models import tiny
from tests.adapters.tiny import save_bert, write_rows


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    path = tmp_path_factory.mktemp("pairs") / "cb.jsonl"
    rows = [
        {"premise": f"word{i} word1", "hypothesis": f"word{i % 7}", "label": ("no", "yes")[i % 2]}
        for i in range(40)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def trial(path, **changes):
    return TaskSplit(
        "pairs", (path,), **{"train": 20, "validation": 8, "test": 12, "max_tokens": 4, **changes}
    )


def test_splits_are_disjoint_and_differ_by_seed(pairs):
    parts = split_task(trial(pairs), 0)
    assert [len(part) for part in parts] == [20, 12]
    texts = [{example.features for example in part.examples} for part in parts]
    assert not texts[0] & texts[1]
    assert all(len(example.features) == 2 for example in parts[0].examples)
    assert split_task(trial(pairs), 0)[0] == parts[0]
    assert split_task(trial(pairs), 1)[0] != parts[0]


def test_asking_for_too_much_is_refused(pairs):
    with pytest.raises(AttangentError, match="has 40 examples, 41 were requested"):
        split_task(trial(pairs, test=13), 0)


def test_rows_without_a_text_are_named(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"premise": "a", "hypothesis": "b", "label": 0}\n{"premise": "a", "label": 1}\n')
    with pytest.raises(AttangentError, match="row 2: no text in the column hypothesis"):
        split_task(trial(path), 0)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda path: trial(Path("no.jsonl")), "task pairs: there is no no.jsonl"),
        (lambda path: trial(path, train=0), "train is 0"),
    ],
)
def test_settings_that_are_rejected(pairs, build, message):
    with pytest.raises(AttangentError, match=message):
        build(pairs)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trunk")
    save_bert(folder, layers=3)
    return folder


def test_a_trial_has_hidden_states_for_its_top(bert, pairs):
    prepared = prepare_trial(str(bert), trial(pairs), 1, 0)
    assert prepared.model.config.num_hidden_layers == 1
    assert [len(rows) for rows in (prepared.train, prepared.test)] == [20, 12]
    with torch.no_grad():
        assert prepared.model(**prepared.collate(prepared.test)).logits.shape == (12, 2)


@pytest.fixture(scope="module")
def texts(bert):
    task = read_task(write_rows(bert / "rows.jsonl", 10))
    rows = encode_task(task, load_tokenizer(bert), 4)
    rows[3] = {name: value[:4] if isinstance(value, list) else value for name, value in rows[3].items()}
    return load_model(bert, "classification", task.labels), rows


@pytest.mark.parametrize("top", [1, 2])
def test_a_cut_model_answers_as_the_whole(texts, top):
    model, rows = texts
    pad = Padding(0)
    trunk, upper = split_trunk(model, top)
    states = trunk.encode(rows, pad)
    assert [len(state["inputs_embeds"]) for state in states] == [len(row["input_ids"]) for row in rows]
    with torch.no_grad():
        whole, cut = model(**pad(rows)), upper.eval()(**pad(states))
    torch.testing.assert_close(cut.logits, whole.logits, rtol=1e-5, atol=1e-6)


def test_the_last_layer_goes_on_for_the_token_the_head_reads_alone(texts):
    model, rows = texts
    trunk, upper = split_trunk(model, 2)
    seen = []
    upper.base_model.encoder.layer[-1].output.register_forward_hook(lambda _, __, out: seen.append(out.shape))
    upper(**Padding(0)(trunk.encode(rows, Padding(0))))
    assert seen[0][1] == 1


@pytest.mark.parametrize("name", ["ntk", "lora", "prefix"])
def test_every_method_goes_on_a_top(texts, name):
    model, rows = texts
    trunk, upper = split_trunk(model, 1)
    states = trunk.encode(rows, Padding(0))
    adapted = adapt(copy.deepcopy(upper), Method(name), "classification", 0, [Padding(0)(states)])
    adapted(**Padding(0)(states)).loss.backward()
    assert all(p.grad is not None for p in adapted.parameters() if p.requires_grad)


def test_what_cannot_be_cut_is_refused(texts):
    with pytest.raises(AttangentError, match="top is 3, expected 1 to 2 of 3 layers"):
        split_trunk(texts[0], 3)
    with pytest.raises(AttangentError, match="LlamaForCausalLM cannot be cut"):
        split_trunk(tiny("llama"), 1)
