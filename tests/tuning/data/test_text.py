"""Examples from files: labelled texts, numbers, completions, columns, rows without a text."""

import csv
import gzip
import json
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attangent import AttangentError
from attangent.tuning.data.columns import TextColumns
from attangent.tuning.data.records import LegacyEncodingWarning, read_records
from attangent.tuning.data.text import (
    BlankTextWarning,
    ValueUnits,
    read_completions,
    read_task,
    read_values,
)

CB = {"premise": "It rained.", "hypothesis": "It was wet.", "label": "entailment", "idx": 0}
BOOLQ = {"question": "is it so", "passage": "It is so.", "label": True}


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_cb_has_two_features_and_its_own_label_names(tmp_path):
    task = read_task(write(tmp_path / "cb.jsonl", [CB, {**CB, "label": "neutral"}]))
    assert task.examples[0].features == ("It rained.", "It was wet.")
    assert task.labels == ("entailment", "neutral")
    assert [example.label for example in task.examples] == [0, 1]


def test_boolq_labels_are_zero_and_one(tmp_path):
    task = read_task(write(tmp_path / "b.jsonl", [BOOLQ, {**BOOLQ, "label": False}]))
    assert task.examples[0].features == ("is it so", "It is so.")
    assert [task.labels[example.label] for example in task.examples] == ["1", "0"]


def test_columns_of_a_csv_in_their_order(tmp_path):
    with (tmp_path / "t.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows(
            [("id", "title", "body", "label"), (1, "a,b", 'say "x"\nmore', "10"), (2, "c", "d", "9")]
        )
    task = read_task(tmp_path / "t.csv", columns=TextColumns(("title", "body")))
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
        ([CB, {"premise": 3, "label": 1}], "row 2: no text in the column premise, hypothesis"),
        ([{"label": 1}], "no text column"),
        ([CB, CB], "x.jsonl has only the label entailment, expected at least two labels"),
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
        ("one.json", "is not a list"),
    ]:
        with pytest.raises(AttangentError, match=message):
            list(read_records(tmp_path / name))
    with pytest.raises(AttangentError, match="has no rows"):
        read_task(tmp_path / "empty.jsonl")


TABLE = "id,subject,body,intent,agent\n1,Hello,where is it,late,Ann\n2,Hi,it broke,damaged,Bob\n"


def test_texts_in_the_order_they_are_named(tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    columns = TextColumns(("body", "subject"), "intent")
    task = read_task(tmp_path / "t.csv", columns=columns)
    assert task.examples[0].features == ("where is it", "Hello")
    assert task.labels == ("damaged", "late")
    assert task.columns == ("body", "subject")


WIDE = [
    {
        "id": f"A{number}",
        "when": f"2026-01-{number + 10}",
        "price": f"{number}.5",
        "topic": "late" if number % 2 else "lost parcel",
        "message": f"where is parcel {number}",
        "label": str(number % 2),
    }
    for number in range(8)
]


def test_only_the_one_column_with_texts_is_read(tmp_path):
    path = write(tmp_path / "t.jsonl", WIDE)
    assert read_task(path).columns == ("message",)
    assert read_task(path).examples[3].features == ("where is parcel 3",)
    assert [example.row for example in read_task(path).examples] == list(range(1, 9))
    both = write(tmp_path / "u.jsonl", [{**row, "text": "x"} for row in WIDE])
    assert read_task(both).columns == ("text",)


def test_several_columns_with_texts_have_to_be_named(tmp_path):
    path = write(tmp_path / "t.jsonl", [{**row, "reply": row["message"] + " please"} for row in WIDE])
    with pytest.raises(AttangentError, match=r"message, reply may all hold the text; .*--text-column"):
        read_task(path)


@pytest.mark.parametrize(
    ("labels", "refused"),
    [
        ([f"{n / 2}" for n in range(40)], True),
        ([str(n) for n in range(40)], True),
        ([str(n % 12) for n in range(40)], False),
        ([f"{n % 5}.5" for n in range(40)], False),
        ([f"class {n % 20}" for n in range(40)], False),
    ],
)
def test_many_numbers_are_no_classes(tmp_path, labels, refused):
    path = write(tmp_path / "t.jsonl", [{"text": "a b", "label": label} for label in labels])
    if refused:
        with pytest.raises(AttangentError, match="--task regression"):
            read_task(path)
    else:
        assert len(read_task(path)) == 40


def test_decimal_commas_are_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("text;label\na b;1,5\nc d;2\n")
    assert read_values(tmp_path / "t.csv").targets == [1.5, 2.0]


def test_missing_columns_and_labels_are_named(tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    with pytest.raises(AttangentError, match=r"row 1: no text in the column message; the columns are id"):
        read_task(tmp_path / "t.csv", columns=TextColumns(("message",), "intent"))
    with pytest.raises(AttangentError, match=r"t.csv has no column 'label' with labels"):
        read_task(tmp_path / "t.csv", columns=TextColumns(("body",)))
    with pytest.raises(
        AttangentError, match=r"'intnt'.*did you mean 'intent'\? the columns are .*--label-column"
    ):
        read_task(tmp_path / "t.csv", columns=TextColumns(("body",), "intnt"))


def test_a_row_without_a_label_is_not_taken_for_a_missing_column(tmp_path):
    (tmp_path / "t.csv").write_text("text,label\na,b\nc,\n")
    with pytest.raises(AttangentError, match="row 2: no label in the column 'label'; add one"):
        read_task(tmp_path / "t.csv")


@pytest.mark.parametrize(("value", "expected"), [(True, "1"), (2, "2"), ("x", "x"), ("", None), (-1, None)])
def test_labels_as_texts(tmp_path, value, expected):
    path = write(tmp_path / "t.jsonl", [{"text": "a", "label": value}, {"text": "b", "label": "other"}])
    if expected is None:
        with pytest.raises(AttangentError, match="row 1: no label in the column 'label'"):
            read_task(path)
    else:
        assert set(read_task(path).labels) == {expected, "other"}


def test_prompts_with_completions_name_their_task(tmp_path):
    path = write(tmp_path / "t.jsonl", [{"prompt": "a", "completion": "b"}])
    with pytest.raises(AttangentError, match="but prompts with completions; pass --task causal-lm"):
        read_task(path)


def test_a_file_in_another_encoding_is_read_and_warned_of_once(tmp_path):
    (tmp_path / "t.csv").write_bytes(
        "id;Kommentar;label\n1;schön war es;gut\n2;es war übel;schlecht\n".encode("cp1252")
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert read_task(tmp_path / "t.csv").examples[0].features == ("schön war es",)
    assert [warning.category for warning in caught] == [LegacyEncodingWarning]


NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20).filter(lambda x: max(x) - min(x) > 1e-3)


def file(tmp_path, rows):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_numbers_and_their_texts(tmp_path):
    rows = [{"title": "a", "body": "b", "stars": 4}, {"title": "c", "body": "d", "stars": "-1"}]
    found = read_values(file(tmp_path, rows), TextColumns(("title", "body"), "stars"))
    assert found.targets == [4.0, -1.0]
    assert found.examples[1].features == ("c", "d")
    assert found.take([1]).targets == [-1.0]


def test_minus_one_is_a_number_here(tmp_path):
    assert read_values(file(tmp_path, [{"text": "a", "label": -1}])).targets == [-1.0]


@pytest.mark.parametrize("label", ["many", "", None, "nan", "inf", [1]])
def test_what_is_no_number_is_refused_with_its_row(tmp_path, label):
    rows = [{"text": "a", "label": 1}, {"text": "b", "label": label}]
    with pytest.raises(AttangentError, match=r"row 2: the column 'label' holds .*expected a number"):
        read_values(file(tmp_path, rows))


def test_values_that_are_all_the_same_are_refused():
    with pytest.raises(AttangentError, match="every value is 2"):
        ValueUnits.of([2.0, 2.0])


@given(NUMBERS)
def test_units_have_mean_0_and_deviation_1_and_go_back(values):
    units = ValueUnits.of(values)
    inside = [units.inside(value) for value in values]
    assert sum(inside) / len(inside) == pytest.approx(0, abs=1e-6)
    assert sum(x * x for x in inside) / len(inside) == pytest.approx(1, rel=1e-6)
    assert [units.outside(x) for x in inside] == pytest.approx(values, rel=1e-6, abs=1e-6)


def write_in(folder, rows):
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def labelled(*texts):
    return [{"text": text, "label": number % 2} for number, text in enumerate(texts)]


@pytest.mark.parametrize("read", [read_task, read_values, read_completions])
def test_rows_without_a_text_are_counted_and_named(tmp_path, read):
    path = write_in(tmp_path, labelled("a", "", "b", " \n", "c"))
    with pytest.warns(BlankTextWarning, match=r"2 of the 5 rows of .* have no text \(row 2, 4\)"):
        assert len(read(path)) == 5


@pytest.mark.parametrize("read", [read_task, read_values, read_completions])
def test_a_file_without_any_text_is_refused(tmp_path, read):
    with pytest.raises(AttangentError, match=r"no row of .* has a text \(3 rows\)"):
        read(write_in(tmp_path, labelled("", " ", "\t")))


def test_only_the_first_rows_are_named(tmp_path):
    with pytest.warns(BlankTextWarning, match=r"row 2, 3, 4, 5, 6, \.\.\.\)"):
        read_task(write_in(tmp_path, labelled("a", *[""] * 8)))


def test_a_row_with_one_of_two_texts_is_no_blank_one(tmp_path):
    rows = [{"title": "", "body": "b", "label": 0}, {"title": "t", "body": "", "label": 1}]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(read_task(write_in(tmp_path, rows), columns=TextColumns(("title", "body")))) == 2


def test_texts_and_prompts(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"text": "a"}\n{"prompt": "b", "completion": "c"}\n')
    assert [(pair.prompt, pair.text) for pair in read_completions(tmp_path / "x.jsonl")] == [
        ("", "a"),
        ("b", "c"),
    ]
