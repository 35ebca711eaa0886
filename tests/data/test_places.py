import gzip
import hashlib

import pytest

from attangent import AttangentError
from attangent.data import DataFile, DataSet, add_folder, data_file, folders, look
from attangent.data.places import settings_file


@pytest.fixture(autouse=True)
def own_settings(monkeypatch, tmp_path):
    monkeypatch.setenv("ATTANGENT_CONFIG", str(tmp_path / "settings"))
    monkeypatch.delenv("ATTANGENT_DATA", raising=False)


def made(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    return folder


def test_added_folders_are_looked_in_and_the_last_one_first(tmp_path):
    assert folders() == ()
    assert data_file("a/b.csv") is None
    first, second = made(tmp_path / "1", "a/b.csv", "c.csv"), made(tmp_path / "2", "a/b.csv")
    for folder in (first, second, first, second):
        assert add_folder(folder) == settings_file()
    assert folders() == (second, first)
    assert data_file("a/b.csv") == second / "a/b.csv"
    assert data_file("c.csv") == first / "c.csv"


def test_the_variable_wins(tmp_path, monkeypatch):
    add_folder(made(tmp_path / "1", "c.csv"))
    monkeypatch.setenv("ATTANGENT_DATA", str(tmp_path))
    assert folders() == (tmp_path,)
    assert data_file("c.csv") is None


def test_what_is_no_folder_and_damaged_settings_are_refused(tmp_path):
    with pytest.raises(AttangentError, match="there is no folder"):
        add_folder(tmp_path / "gone")
    settings_file().parent.mkdir()
    for content in ("{", "[]", '{"folders": 3}', "\x00"):
        settings_file().write_text(content)
        with pytest.raises(AttangentError, match="repair or remove it"):
            folders()


def test_files_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTANGENT_DATA", str(tmp_path))
    digest = hashlib.sha256(b"good").hexdigest()
    contents = {
        "good.gz": gzip.compress(b"good", 1),
        "plain.bin": b"good",
        "other.gz": gzip.compress(b"bad"),
        "cut.gz": gzip.compress(b"good" * 100)[:-9],
        "no.gz": b"good",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    files = tuple(DataFile(name, digest) for name in (*contents, "gone.gz"))
    states = look(DataSet("a", "b", "c", "d", "e", files), digests=True)
    assert [state.state for state in states] == [
        *("as listed", "as listed", "different", "damaged", "damaged", "missing")
    ]
    assert [state.fine for state in states] == [True, True, False, False, False, False]
    assert look(DataSet("a", "b", "c", "d", "e", files))[2].state == "there"
