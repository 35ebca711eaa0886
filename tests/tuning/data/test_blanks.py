"""Rows without a text."""

import json
import warnings

import pytest

from attangent import AttangentError
from attangent.tuning.data.blanks import BlankTextWarning
from attangent.tuning.data.completions import read_completions
from attangent.tuning.data.text import read_task
from attangent.tuning.data.values import read_values


def write(folder, rows):
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def labelled(*texts):
    return [{"text": text, "label": number % 2} for number, text in enumerate(texts)]


@pytest.mark.parametrize("read", [read_task, read_values, read_completions])
def test_rows_without_a_text_are_counted_and_named(tmp_path, read):
    path = write(tmp_path, labelled("a", "", "b", " \n", "c"))
    with pytest.warns(BlankTextWarning, match=r"2 of the 5 rows of .* have no text \(row 2, 4\)"):
        assert len(read(path)) == 5


@pytest.mark.parametrize("read", [read_task, read_values, read_completions])
def test_a_file_without_any_text_is_refused(tmp_path, read):
    with pytest.raises(AttangentError, match=r"no row of .* has a text \(3 rows\)"):
        read(write(tmp_path, labelled("", " ", "\t")))


def test_only_the_first_rows_are_named(tmp_path):
    with pytest.warns(BlankTextWarning, match=r"row 2, 3, 4, 5, 6, \.\.\.\)"):
        read_task(write(tmp_path, labelled("a", *[""] * 8)))


def test_a_row_with_one_of_two_texts_is_no_blank_one(tmp_path):
    rows = [{"title": "", "body": "b", "label": 0}, {"title": "t", "body": "", "label": 1}]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(read_task(write(tmp_path, rows))) == 2
