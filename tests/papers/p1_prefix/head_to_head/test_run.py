"""Settings of a comparison, and the splits of a data set."""

import json
from pathlib import Path

import pytest

from attangent import AttangentError
from attangent.papers.p1_prefix.head_to_head.run import (
    LAYOUTS,
    Entrant,
    TaskSplit,
    layout_of,
    read_superglue,
    split_task,
)
from attangent.tuning.methods import Method
from tests.papers.p1_prefix.head_to_head.cases import comparison, trial, write_model_and_rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model_and_rows(tmp_path_factory.mktemp("bert"))


def test_splits_are_disjoint_and_differ_by_seed(folder):
    parts = split_task(trial(folder), 0)
    assert [len(part) for part in parts] == [20, 8, 12]
    texts = [{example.features for example in part.examples} for part in parts]
    assert not texts[0] & texts[1] & texts[2]
    assert split_task(trial(folder), 0)[0] == parts[0]
    assert split_task(trial(folder), 1)[0] != parts[0]


def test_a_test_file_of_its_own(folder):
    parts = split_task(trial(folder, train=30, eval_files=(folder / "held.jsonl",)), 0)
    assert [len(part) for part in parts] == [30, 8, 12]


def test_asking_for_too_much_is_refused(folder):
    with pytest.raises(AttangentError, match="has 40 examples, 41 were requested"):
        split_task(trial(folder, test=13), 0)


CB = {"premise": "It rained.", "hypothesis": "It was wet.", "label": "entailment", "idx": 0}
COPA = {"premise": "P", "choice1": "A", "choice2": "B", "question": "cause", "label": 1, "idx": 3}
BOOLQ = {"question": "is it so", "passage": "It is so.", "label": True}
MULTIRC = {
    "passage": {
        "text": "A passage.",
        "questions": [
            {"question": "Q1?", "answers": [{"text": "a", "label": 1}, {"text": "b", "label": 0}]},
            {"question": "Q2?", "answers": [{"text": "c", "label": 0}]},
        ],
    }
}


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return (path,)


def test_copa_asks_the_question_in_words(tmp_path):
    task = read_superglue(write(tmp_path / "copa.jsonl", [COPA, {**COPA, "question": "effect", "label": 0}]))
    assert task.examples[0].features == ("P", "What was the cause of this?", "A", "B")
    assert task.examples[1].features[1] == "What happened as a result?"
    assert [task.labels[example.label] for example in task.examples] == ["1", "0"]


def test_multirc_is_one_example_an_answer(tmp_path):
    task = read_superglue(write(tmp_path / "m.jsonl", [MULTIRC]))
    assert [example.features for example in task.examples] == [
        ("Q1?", "a", "A passage."),
        ("Q1?", "b", "A passage."),
        ("Q2?", "c", "A passage."),
    ]
    assert task.counts == {"0": 2, "1": 1}


def test_rte_is_read_by_name(tmp_path):
    rows = [{**CB, "label": "not_entailment"}, CB]
    assert read_superglue(write(tmp_path / "r.jsonl", rows), layout="rte").labels == (
        "entailment",
        "not_entailment",
    )


@pytest.mark.parametrize(
    ("row", "name"), [(CB, "cb"), (COPA, "copa"), (BOOLQ, "boolq"), (MULTIRC, "multirc")]
)
def test_layouts_are_known_by_their_keys(row, name):
    assert layout_of(row) == name


def test_rows_of_another_layout_are_named(tmp_path):
    rows = [COPA, {"premise": "x", "label": 1}]
    with pytest.raises(AttangentError, match="row 2: no text in question, choice1, choice2"):
        read_superglue(write(tmp_path / "x.jsonl", rows))
    with pytest.raises(AttangentError, match=f"expected one of {', '.join(LAYOUTS)}"):
        read_superglue(write(tmp_path / "x.jsonl", rows), layout="glue")


def test_an_entrant_has_the_rate_of_its_method_by_default():
    assert Entrant("a", Method("lora")).rates == (0.002,)
    assert Entrant("a", Method("lora")).at(0.1).learning_rate == 0.1


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda folder: comparison(folder, trials=()), "the tasks are"),
        (
            lambda folder: comparison(folder, trials=(trial(folder),) * 2),
            "each only once",
        ),
        (lambda folder: comparison(folder, pooling="max"), "pooling is 'max'"),
        (
            lambda folder: TaskSplit("t", (Path("no.jsonl"),), 1, 1, 1),
            "task t: there is no no.jsonl",
        ),
        (lambda folder: trial(folder, train=0), "train is 0"),
        (lambda folder: Entrant("a", Method("lora"), (0.0,)), "expected numbers above 0"),
        (lambda folder: Entrant("", Method("lora")), "no label"),
    ],
)
def test_settings_that_are_rejected(folder, build, message):
    with pytest.raises(AttangentError, match=message):
        build(folder)


def test_top_is_set_once(folder):
    given = comparison(folder)
    entrants = (Entrant("a", Method("lora", top=1)),)
    with pytest.raises(AttangentError, match="for the comparison and for an entrant"):
        type(given)(given.model, entrants, given.trials, top=1)
