"""Labelled texts from files, in every layout."""

import csv
import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attangent import AttangentError
from attangent.papers.p1_prefix.superglue import LAYOUTS, layout_of
from attangent.tuning.data.records import read_records
from attangent.tuning.data.text import read_task

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
    return path


def test_cb_has_two_features_and_its_own_label_names(tmp_path):
    task = read_task(write(tmp_path / "cb.jsonl", [CB, {**CB, "label": "neutral"}]))
    assert task.examples[0].features == ("It rained.", "It was wet.")
    assert task.labels == ("entailment", "neutral")
    assert [example.label for example in task.examples] == [0, 1]


def test_copa_asks_the_question_in_words(tmp_path):
    task = read_task(write(tmp_path / "copa.jsonl", [COPA, {**COPA, "question": "effect", "label": 0}]))
    assert task.examples[0].features == ("P", "What was the cause of this?", "A", "B")
    assert task.examples[1].features[1] == "What happened as a result?"
    assert [task.labels[example.label] for example in task.examples] == ["1", "0"]


def test_boolq_labels_are_zero_and_one(tmp_path):
    task = read_task(write(tmp_path / "b.jsonl", [BOOLQ, {**BOOLQ, "label": False}]))
    assert task.examples[0].features == ("is it so", "It is so.")
    assert [task.labels[example.label] for example in task.examples] == ["1", "0"]


def test_multirc_is_one_example_an_answer(tmp_path):
    task = read_task(write(tmp_path / "m.jsonl", [MULTIRC]))
    assert [example.features for example in task.examples] == [
        ("Q1?", "a", "A passage."),
        ("Q1?", "b", "A passage."),
        ("Q2?", "c", "A passage."),
    ]
    assert task.counts == {"0": 2, "1": 1}


def test_rte_is_read_by_name(tmp_path):
    rows = [{**CB, "label": "not_entailment"}, CB]
    assert read_task(write(tmp_path / "r.jsonl", rows), layout="rte").labels == (
        "entailment",
        "not_entailment",
    )


@pytest.mark.parametrize(
    ("row", "name"), [(CB, "cb"), (COPA, "copa"), (BOOLQ, "boolq"), (MULTIRC, "multirc")]
)
def test_layouts_are_known_by_their_keys(row, name):
    assert layout_of(row) == name


def test_columns_of_a_csv_in_their_order(tmp_path):
    with (tmp_path / "t.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows(
            [("id", "title", "body", "label"), (1, "a,b", 'say "x"\nmore', "10"), (2, "c", "d", "9")]
        )
    task = read_task(tmp_path / "t.csv")
    assert task.examples[0].features == ("a,b", 'say "x"\nmore')
    assert task.labels == ("9", "10")  # numbers by size


def test_gzip_and_several_files_as_one(tmp_path):
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.write(json.dumps(CB) + "\n")
    write(tmp_path / "b.jsonl", [{**CB, "label": "neutral"}])
    assert len(read_task((tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl"))) == 2


def test_json_list(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([CB]))
    assert list(read_records(tmp_path / "a.json")) == [CB]


@given(rows=st.lists(st.tuples(st.text(min_size=1), st.sampled_from("ab")), min_size=2, max_size=8))
def test_any_text_survives_jsonl(tmp_path_factory, rows):
    rows = [*rows, ("x", "a"), ("y", "b")]
    path = write(tmp_path_factory.mktemp("rows") / "x.jsonl", [{"text": t, "label": l} for t, l in rows])
    task = read_task(path)
    assert [(e.features[0], task.labels[e.label]) for e in task.examples] == rows


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([CB, {**CB, "label": None}], "row 2: no label"),
        ([COPA, {"premise": "x", "label": 1}], "row 2: no text in question, choice1, choice2"),
        ([{"label": 1}], "no text column"),
        ([CB, CB], "at least two labels"),
    ],
)
def test_bad_rows_are_named(tmp_path, rows, message):
    with pytest.raises(AttangentError, match=message):
        read_task(write(tmp_path / "x.jsonl", rows))


def test_labels_the_training_data_lacks_are_refused(tmp_path):
    path = write(tmp_path / "x.jsonl", [{**CB, "label": "odd"}, CB])
    with pytest.raises(
        AttangentError,
        match=r"has the labels odd \(x.jsonl row 1\), expected only those of the training data: entail",
    ):
        read_task(path, labels=("entailment", "neutral"))


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "x.txt").write_text("hello")
    (tmp_path / "bad.jsonl").write_text('{"a": 1}\nnot json\n')
    (tmp_path / "list.jsonl").write_text("[1]\n")
    (tmp_path / "one.json").write_text("{}")
    (tmp_path / "empty.jsonl").write_text("")
    for name, message in [
        ("none.jsonl", "there is no file"),
        ("x.txt", "ends in .txt"),
        ("bad.jsonl", "row 2 is not JSON"),
        ("list.jsonl", "row 1 is list"),
        ("one.json", "does not hold a list"),
    ]:
        with pytest.raises(AttangentError, match=message):
            list(read_records(tmp_path / name))
    with pytest.raises(AttangentError, match="has no rows"):
        read_task(tmp_path / "empty.jsonl")
    with pytest.raises(AttangentError, match=f"expected one of {', '.join(LAYOUTS)}"):
        read_task(tmp_path / "empty.jsonl", layout="glue")
