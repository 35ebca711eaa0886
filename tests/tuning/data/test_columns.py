"""Columns by name."""

import pytest

from attangent import AttangentError
from attangent.tuning.data.columns import Columns, label_in
from attangent.tuning.data.text import read_features, read_task, text_columns

TABLE = "id,subject,body,intent,agent\n1,Hello,where is it,late,Ann\n2,Hi,it broke,damaged,Bob\n"


def test_texts_in_the_order_they_are_named(tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    columns = Columns(("body", "subject"), "intent")
    task = read_task(tmp_path / "t.csv", columns=columns)
    assert task.examples[0].features == ("where is it", "Hello")
    assert task.labels == ("damaged", "late")
    assert text_columns(tmp_path / "t.csv", None, columns) == ("body", "subject")


def test_without_names_all_texts_but_the_label(tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    assert text_columns(tmp_path / "t.csv", None, Columns(label="intent")) == ("subject", "body", "agent")
    (tmp_path / "new.csv").write_text("note,body,subject\nx,it is late,Hi\n")
    assert read_features(tmp_path / "new.csv", None, Columns(("subject", "body"))) == [("Hi", "it is late")]


def test_missing_columns_and_labels_are_named(tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    with pytest.raises(AttangentError, match=r"row 1: no text in the column message; the columns are id"):
        read_task(tmp_path / "t.csv", columns=Columns(("message",), "intent"))
    with pytest.raises(AttangentError, match=r"row 1: no label in the column 'label'"):
        read_task(tmp_path / "t.csv", columns=Columns(("body",)))
    with pytest.raises(
        AttangentError, match=r"'intnt'.*did you mean 'intent'\? the columns are .*--label-column"
    ):
        read_task(tmp_path / "t.csv", columns=Columns(label="intnt"))


def test_a_row_without_a_label_is_not_taken_for_a_missing_column(tmp_path):
    (tmp_path / "t.csv").write_text("text,label\na,b\nc,\n")
    with pytest.raises(AttangentError, match="row 2: no label in the column 'label'; give rows with one"):
        read_task(tmp_path / "t.csv")


@pytest.mark.parametrize(("value", "expected"), [(True, "1"), (2, "2"), ("x", "x"), ("", None), (-1, None)])
def test_labels_as_texts(value, expected):
    assert label_in({"label": value}) == expected
