"""The first line of tables."""

import gzip
import time
import zipfile

import pandas as pd
import pytest

from attangent import AttangentError
from attangent._core.tables import MOST_COLUMNS, check_columns, check_header, harmless, harmless_frame
from attangent.forecast.data.tables import numeric_columns, read_table
from attangent.stages import read_metrics
from attangent.tuning.data.records import read_records


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_too_many_columns_are_refused_before_the_table_is_read(tmp_path, mark):
    path = tmp_path / "wide.csv"
    path.write_text(mark.join(["a"] * MOST_COLUMNS) + "\n1\n")
    check_header(path)
    path.write_text(mark.join(["a"] * (MOST_COLUMNS + 1)) + "\n1\n")
    with pytest.raises(AttangentError, match="20,001 columns"):
        check_header(path)


def test_a_packed_line_without_end_is_not_unpacked_whole(tmp_path):
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"0" * 2**25))
    with pytest.raises(AttangentError, match="in its first line"):
        check_header(path)


def test_cut_archives_are_refused(tmp_path):
    path = tmp_path / "cut.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n")[:12])
    with pytest.raises(AttangentError, match="cannot be read"):
        check_header(path)
    check_header(tmp_path / "no such file")


@pytest.mark.parametrize("text", ["=1+1", "@SUM(A1)", "+cmd|x", "-2+3", "\t=1", "\r=1"])
def test_texts_that_a_spreadsheet_would_run_get_an_apostrophe(text):
    assert harmless(text) == f"'{text}"


@pytest.mark.parametrize("cell", ["cat", "", "-1.5", "+3e4", "a=b", -2, None, 0.5])
def test_other_cells_stay_as_they_are(cell):
    assert harmless(cell) == cell


def test_column_names_are_made_harmless_too():
    frame = pd.DataFrame({"=a": ["=b", "c"], "n": [-1.0, 2.0], "self": ["x", "y"]})
    assert harmless_frame(frame).to_csv(index=False) == "'=a,n,self\n'=b,-1.0,x\nc,2.0,y\n"


JUNK = (b"junk" * 100, b"", b"PK\x03\x04junk", b"\xfd7zXZ\x00junk", b"\x28\xb5\x2f\xfdjunk")


@pytest.mark.parametrize("ending", ["zip", "tar", "tar.gz", "xz", "zst", "bz2", "gz"])
@pytest.mark.parametrize("content", JUNK, ids=range(len(JUNK)))
def test_junk_in_archives_is_refused(tmp_path, ending, content):
    path = tmp_path / f"table.csv.{ending}"
    path.write_bytes(content)
    for read in (read_table, read_metrics):
        with pytest.raises(AttangentError, match=r"table\.csv"):
            read(path)


def test_a_wide_table_in_a_zip_is_not_unpacked(tmp_path):
    path = tmp_path / "table.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("table.csv", ",".join(["a"] * (MOST_COLUMNS + 1)) + "\n")
    with pytest.raises(AttangentError, match="20,001 columns"):
        check_header(path)


def test_a_name_that_comes_twice_is_refused(tmp_path):
    check_columns(["a", "b", "", "", float("nan")], tmp_path)
    with pytest.raises(AttangentError, match="names a column twice: 'a', 'b'"):
        check_columns(["a", " a", "b", "b", "c"], tmp_path)


@pytest.mark.parametrize(
    "read",
    [
        lambda path: numeric_columns(read_table(path), ("loss",), []),
        read_metrics,
        lambda path: list(read_records(path)),
    ],
    ids=["forecast", "stages", "tune"],
)
@pytest.mark.parametrize(
    "content",
    [
        "," * 10_000_000 + "\n1\n",
        "x" * 10_000_000 + "\n1\n",
        "step,loss\n" + "1," * 5_000_000 + "1\n",
        "step,loss\n" + ("1," * 3_000 + "1\n") * 300,
        "step,loss\n1,2\n2," + "x" * 10_000_000 + "\n3,2\n",
        "step,loss\n" + "x" * 10_000_000 + ",2\n3,2\n",
    ],
    ids=["names", "name", "first row", "rows", "cell", "first cell"],
)
def test_huge_lines_are_refused_in_seconds_and_few_words(tmp_path, read, content):
    path = tmp_path / "table.csv"
    path.write_text(content)
    started = time.perf_counter()
    with pytest.raises(AttangentError) as error:
        read(path)
    assert time.perf_counter() - started < 60
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize("read", [read_table, read_metrics])
def test_rows_wider_than_the_header_do_not_shift_columns(tmp_path, read):
    path = tmp_path / "table.csv"
    path.write_text("step,loss\n1,2,\n2,3,\n")
    with pytest.raises(AttangentError, match="1 more cells in its first row than names in its header"):
        read(path)
