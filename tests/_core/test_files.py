"""Settings from files."""

import errno
import os
import subprocess
import sys
import tracemalloc
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from attangent import AttangentError
from attangent._core import files
from attangent._core.checks import check_size
from attangent._core.files import (
    check_file,
    only_writer,
    read_json,
    read_toml,
    real_folder,
    refusals,
    remove_leftovers,
    settings_of,
    write_json,
    write_whole,
    writing,
)


def test_write_replaces_whole_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "a.json"
    for data in (b"first", b"second, longer"):
        write_whole(path, data)
        assert path.read_bytes() == data
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_whole(path, b"old")

    def full_disk(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(AttangentError, match=r"cannot write .*No space"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_write_does_not_follow_a_link(tmp_path):
    outside = tmp_path / "outside"
    outside.write_bytes(b"precious")
    link = tmp_path / "run" / "a.json"
    link.parent.mkdir()
    link.symlink_to(outside)
    write_whole(link, b"new")
    assert outside.read_bytes() == b"precious"
    assert link.read_bytes() == b"new"


def test_leftovers_of_a_killed_writer_go(tmp_path):
    (tmp_path / ".a.json.x1.partial").write_bytes(b"half")
    (tmp_path / "a.json").write_bytes(b"whole")
    remove_leftovers(tmp_path)
    assert os.listdir(tmp_path) == ["a.json"]


def test_folders_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(AttangentError, match="cannot create the folder"):
        real_folder(tmp_path / "file")
    with pytest.raises(AttangentError, match="symbolic link"):
        real_folder(tmp_path / "link")


def test_one_writer_at_a_time_and_the_lock_dies_with_its_process(tmp_path):
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from pathlib import Path; from attangent._core.files import only_writer\n"
            f"with only_writer(Path({str(tmp_path)!r})): print('held', flush=True); sys.stdin.read()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(AttangentError, match="another run is writing"), only_writer(tmp_path):
        pass
    holder.kill()
    holder.communicate()
    with only_writer(tmp_path):
        assert os.listdir(tmp_path) == []


def test_what_a_writer_raises_leaves_the_old_file(tmp_path):
    path = tmp_path / "table.csv"
    write_whole(path, "old")

    def half() -> None:
        with writing(path) as temporary:
            temporary.write_text("half")
            raise KeyError(temporary.suffix)

    with pytest.raises(KeyError, match=r"\.csv"):
        half()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["table.csv"]


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(AttangentError, match=r"cannot write .*nowhere"):
        write_whole(tmp_path / "nowhere" / "a.json", "text")


def test_json_is_written_to_be_read(tmp_path):
    write_json(tmp_path / "a.json", {"size": 3})
    assert (tmp_path / "a.json").read_text() == '{\n  "size": 3\n}\n'


@pytest.mark.parametrize(
    ("name", "message"), [("none/out.csv", "there is no folder"), (".", "it is a folder")]
)
def test_places_for_files_are_refused_before_the_work(tmp_path, name, message):
    with pytest.raises(AttangentError, match=message):
        check_file(tmp_path / name)


@pytest.mark.parametrize("check", [lambda path: check_file(path / "out.csv"), real_folder])
def test_a_folder_without_room_is_named_before_the_work(tmp_path, monkeypatch, check):
    def full(**given):
        raise OSError(errno.ENOSPC, "No space left on device")

    check(tmp_path)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(files.tempfile, "TemporaryFile", full)
    with pytest.raises(AttangentError, match="No space left on device; free disk space"):
        check(tmp_path)


def test_devices_are_not_tried_out():
    check_file(Path("/dev/stdout"))
    check_file(Path("/dev/null"))


def test_writers_of_other_libraries_are_put_into_words(tmp_path):
    from safetensors import SafetensorError

    wrong = [RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 8384 vs 8278")]
    wrong += [SafetensorError("IoError: No space left"), OSError(errno.ENOSPC, "No space left on device")]
    for error in wrong:
        with pytest.raises(AttangentError, match=r"cannot write .*free disk space"), refusals(tmp_path / "a"):
            raise error
    with pytest.raises(RuntimeError, match="mine"), refusals(tmp_path / "a"):
        raise RuntimeError("mine")


@dataclass(frozen=True)
class Walk:
    steps: int
    pace: float = 1.0
    stops: tuple[Path, ...] = ()
    notes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_size("steps", self.steps)


def test_settings_become_what_the_dataclass_declares():
    given = {"steps": 3, "pace": 2, "stops": ["a", "b/c"]}
    assert settings_of(Walk, given, "a walk") == Walk(3, 2.0, (Path("a"), Path("b/c")))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"steps": "3"}, r"a walk: Expected `int`, got `str` - at `\$.steps`"),
        ({"steps": 3, "stops": "a"}, r"Expected `array`, got `str` - at `\$.stops`"),
        ({"steps": 3, "stops": [1]}, r"a walk: .*stops"),
        ({"steps": 3, "notes": {"a": 1}}, r"got `int` - at `\$.notes"),
        ({"pace": 1.0}, "missing required field `steps`"),
        ({"steps": 0}, "a walk: steps is 0, expected a whole number of at least 1"),
        (
            {"steps": 3, "dog": 1},
            "unknown settings dog of a walk, expected some of notes",
        ),
        ({"steps": "\ud800"}, "a walk: .*surrogates not allowed"),
        ([1], "a walk is list, expected a table of settings"),
    ],
)
def test_other_settings_are_refused_with_their_place(given, message):
    with pytest.raises(AttangentError, match=message):
        settings_of(Walk, given, "a walk")


@pytest.mark.parametrize("read", [read_toml, read_json])
@pytest.mark.parametrize(
    "content", [b"\x00\x01", "a = 1".encode("utf-16"), b"[" * 100_000, b"{", b"a = ", b'{"a": 1', b"\xff\xfe"]
)
def test_spoilt_files_are_refused(read, content, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(AttangentError, match="is not"):
        read(path)


def test_missing_and_large_files_are_refused(tmp_path):
    with pytest.raises(AttangentError, match="there is no file"):
        read_toml(tmp_path)
    path = tmp_path / "large.json"
    path.write_text('{"a": "' + "x" * 100 + '"}')
    with pytest.raises(AttangentError, match="expected at most 50"):
        read_json(path, largest=50)
    assert read_json(path)["a"] == "x" * 100
    path.write_text("[1]")
    with pytest.raises(AttangentError, match="has a list, expected names with values"):
        read_json(path)


@pytest.mark.parametrize(("read", "content"), [(read_toml, "a = 1"), (read_json, '{"a": 1}')])
def test_the_mark_that_some_editors_put_first_is_no_letter(read, content, tmp_path):
    (tmp_path / "file").write_text("\ufeff" + content)
    assert read(tmp_path / "file") == {"a": 1}


@pytest.mark.parametrize(
    "key", ["a." * 20_000 + "a = 1", "[" + "a . " * 20_000 + "a]", "'b'." * 20_000 + "b = 1"]
)
def test_deep_keys_are_refused_before_they_take_memory(key, tmp_path):
    (tmp_path / "deep.toml").write_text(key)
    tracemalloc.start()
    with pytest.raises(AttangentError, match="more than 100 names"):
        read_toml(tmp_path / "deep.toml")
    assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
    tracemalloc.stop()
    (tmp_path / "deep.toml").write_text("a.b.c = [" + "0.1, " * 500 + "]")
    assert len(read_toml(tmp_path / "deep.toml")["a"]["b"]["c"]) == 500
