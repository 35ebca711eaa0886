import gzip
import hashlib

from attangent.data import DataFile, DataSet, look


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
