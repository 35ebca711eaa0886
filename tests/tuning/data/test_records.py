"""Rows from files of every kind."""

import gzip
import json

import pytest

from attangent import AttangentError
from attangent.tuning.data.records import LegacyEncodingWarning, read_records

ROWS = [{"text": "a, b", "label": "x"}, {"text": "c", "label": "y"}]


def written(folder, kind):
    path = folder / f"rows{kind}"
    if kind == ".parquet":
        arrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(arrow.Table.from_pylist(ROWS), path)
    elif kind == ".json":
        path.write_text(json.dumps(ROWS))
    elif kind == ".jsonl.gz":
        path.write_bytes(gzip.compress("\n".join(map(json.dumps, ROWS)).encode()))
    else:
        mark = {".csv": ",", ".tsv": "\t"}[kind]
        lines = ["text", "label"], *([f'"{row["text"]}"', row["label"]] for row in ROWS)
        path.write_text("".join(mark.join(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("kind", [".csv", ".tsv", ".json", ".jsonl.gz", ".parquet"])
def test_every_kind_gives_the_same_rows(tmp_path, kind):
    assert list(read_records(written(tmp_path, kind))) == ROWS


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", b"text,label\na,b,c\n", "row 1 has more cells than the header"),
        ("x.jsonl", b'{"a": "\xff\xfe"}', "cannot be read as UTF-8"),
        ("x.csv", b"text,label\n\xff\0,b\n", "cannot be read as UTF-8"),
        ("x.jsonl", b"[1]\n", "row 1 is list"),
        ("x.json", b"{}", "is not a list of objects"),
        ("x.json", b"[" * 100_000, "is not JSON"),
        ("x.jsonl", b'{"a": ' + b"1" * 5000 + b"}", "row 1 is not JSON"),
        ("x.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 500, mtime=0)[:-9], "cannot be read"),
        ("x.parquet", b"PAR1junk", "cannot be read as parquet"),
        ("x.doc", b"", "ends in .doc, expected one of"),
        ("x.xlsx", b"", "is a spreadsheet; save it as CSV"),
    ],
)
def test_files_that_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(AttangentError, match=message):
        list(read_records(tmp_path / name))


@pytest.mark.parametrize("kind", [".csv", ".jsonl.gz", ".json"])
def test_the_mark_that_some_editors_put_first_is_no_letter(tmp_path, kind):
    path = written(tmp_path, kind)
    opened = gzip.open if kind.endswith(".gz") else open
    with opened(path, "rb") as file:
        content = file.read()
    with opened(path, "wb") as file:
        file.write(b"\xef\xbb\xbf" + content)
    assert list(read_records(path)) == ROWS


def test_a_column_that_stands_twice_is_refused(tmp_path):
    (tmp_path / "rows.csv").write_text("text,label,text\na,b,c\n")
    with pytest.raises(AttangentError, match="names a column twice: 'text'"):
        list(read_records(tmp_path / "rows.csv"))


@pytest.mark.parametrize("kind", [".json", ".jsonl"])
def test_half_a_letter_is_refused_and_a_whole_one_is_not(tmp_path, kind):
    path = tmp_path / f"rows{kind}"
    row = {"text": "\U0001f600", "label": "x"}  # spelt as two surrogates
    path.write_text(json.dumps([row] if kind == ".json" else row))
    assert list(read_records(path)) == [row]
    row["text"] = "a \udcff"
    path.write_text(json.dumps([row] if kind == ".json" else row))
    with pytest.raises(AttangentError, match="holds half a character"):
        list(read_records(path))


def test_tables_as_excel_writes_them(tmp_path):
    rows = [{"text": "Grüße; alles gut", "label": "x"}, {"text": "café", "label": "y"}]
    table = 'text;label\r\n"Grüße; alles gut";x\r\ncafé;y\r\n'
    for number, encoding in enumerate(("utf-8", "utf-8-sig", "utf-16")):
        (tmp_path / f"{number}.csv").write_bytes(table.encode(encoding))
        assert list(read_records(tmp_path / f"{number}.csv")) == rows
    (tmp_path / "named.csv").write_text("sep=;\n" + table)
    assert list(read_records(tmp_path / "named.csv")) == rows
    (tmp_path / "old.csv").write_bytes(table.replace(";", "\t").replace("Grüße\t", "Grüße;").encode("cp1252"))
    with pytest.warns(LegacyEncodingWarning, match=r"old.csv is not UTF-8 and was read as Windows-1252"):
        assert list(read_records(tmp_path / "old.csv")) == rows
