"""The first line of tables."""

import gzip

import pytest

from attangent import AttangentError
from attangent._tables import MOST_COLUMNS, check_header


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
