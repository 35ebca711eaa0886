import gzip
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from attangent import AttangentError
from attangent.data import add_folder, data_file, folders, look
from attangent.data.catalogue import DataFile, DataSet, get_set
from attangent.data.places import content_digest, fetch, settings_file


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


CONTENT = bytes(range(256)) * 800


class Handler(BaseHTTPRequestHandler):
    """Serves `server.content`, from where it is asked for; breaks off after `server.breaks` bytes."""

    def do_GET(self):
        self.server.asked.append(self.headers.get("Range"))
        if self.path.endswith("missing"):
            self.send_error(404)
            return
        start = int((self.headers.get("Range") or "bytes=0-")[6:-1]) if self.server.ranges else 0
        if start >= len(self.server.content):
            self.send_error(416)
            return
        part = self.server.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part[: self.server.breaks])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.content, made.ranges, made.breaks, made.asked = CONTENT, True, None, []
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


@pytest.fixture
def wanted(server):
    address = f"http://127.0.0.1:{server.server_port}/here/data.csv"
    file = DataFile("set/data.csv.gz", hashlib.sha256(CONTENT).hexdigest(), address)
    return DataSet("a set", "what", "free", "here", "tests", (file,))


def test_a_file_is_fetched_packed_and_left_alone_when_it_is_there(server, wanted, tmp_path):
    shown = []
    found = fetch(wanted, tmp_path / "data", show=lambda *given: shown.append(given))
    assert found.new == 1
    assert gzip.decompress(found.places[0].read_bytes()) == CONTENT
    assert shown[-1] == ("data.csv.gz", len(CONTENT), len(CONTENT))
    assert [path.name for path in (tmp_path / "data" / "set").iterdir()] == ["data.csv.gz"]
    assert fetch(wanted, tmp_path / "data").new == 0
    assert server.asked == [None]


@pytest.mark.parametrize("ranges", [True, False])
def test_what_was_cut_off_goes_on(server, wanted, tmp_path, ranges):
    server.breaks, server.ranges = 100_000, ranges
    with pytest.raises(AttangentError, match="run the same command again"):
        fetch(wanted, tmp_path)
    assert not (tmp_path / "set/data.csv.gz").exists()
    assert (tmp_path / "set/data.csv.gz.part").stat().st_size == 100_000
    server.breaks = None
    assert fetch(wanted, tmp_path).new == 1
    assert server.asked == [None, "bytes=100000-"]
    assert content_digest(tmp_path / "set/data.csv.gz") == wanted.files[0].content


def test_a_part_that_is_whole_already_is_enough(server, wanted, tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set/data.csv.gz.part").write_bytes(CONTENT)
    assert fetch(wanted, tmp_path).new == 1


def test_other_content_is_thrown_away(server, wanted, tmp_path):
    server.content = CONTENT[:-1] + b"x"
    with pytest.raises(AttangentError, match="it was deleted"):
        fetch(wanted, tmp_path)
    assert list((tmp_path / "set").iterdir()) == []


def test_what_stands_in_the_way_is_left_as_it_is(server, wanted, tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set/data.csv.gz").write_bytes(b"mine")
    with pytest.raises(AttangentError, match="move it away"):
        fetch(wanted, tmp_path)
    assert (tmp_path / "set/data.csv.gz").read_bytes() == b"mine"
    assert server.asked == []


def test_a_mirror_and_its_refusals(server, wanted, tmp_path):
    mirror = f"http://127.0.0.1:{server.server_port}/mirror/"
    assert fetch(wanted, tmp_path, mirror).new == 1
    missing = DataSet("b", "", "", "", "", (DataFile("b/missing", "0" * 64, mirror + "missing"),))
    with pytest.raises(AttangentError, match="answered 404"):
        fetch(missing, tmp_path)
    with pytest.raises(AttangentError, match="starts with https"):
        fetch(wanted, tmp_path / "other", "file:///etc")


def test_sets_without_an_address_say_where_they_are_from(tmp_path):
    with pytest.raises(AttangentError, match=r"super\.gluebenchmark\.com"):
        fetch(get_set("superglue"), tmp_path)
    assert list(tmp_path.iterdir()) == []
