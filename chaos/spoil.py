"""Ways to spoil a file, from a slip of the editor to an attack."""

import gzip
import io
import os
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

_WORDS = (
    b'"x"',
    b"-1",
    b"1e999",
    b"null",
    b"[]",
    b"{}",
    b"true",
    b"99999999999999999999999",
    b'"../../x"',
    b"0.5",
)


def _truncated(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _flipped(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 3, 20))):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _other_value(data: bytes, rng: random.Random) -> bytes:
    """One number or text of a text file replaced by a value of another kind."""
    lines = data.split(b"\n")
    place = rng.randrange(len(lines))
    for mark in (b": ", b" = ", b",", b":"):
        head, found, tail = lines[place].partition(mark)
        if found:
            end = b"," if tail.endswith(b",") else b""
            lines[place] = head + mark + rng.choice(_WORDS) + end
            break
    return b"\n".join(lines)


def _line_lost(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    lines.pop(rng.randrange(len(lines)))
    return b"\n".join(lines)


def _line_twice(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    place = rng.randrange(len(lines))
    return b"\n".join([*lines[: place + 1], *lines[place:]])


def _archive(data: bytes, rng: random.Random) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        file.writestr("../../outside", data)
    return held.getvalue()


def _bomb(data: bytes, rng: random.Random) -> bytes:
    return gzip.compress(b"0," * 2**24)


def _deep(data: bytes, rng: random.Random) -> bytes:
    return rng.choice((b"[", b'{"a":', b"a = [")) * 100_000


def _wide(data: bytes, rng: random.Random) -> bytes:
    names = b",".join(b"c%d" % n for n in range(100_000))
    return names + b"\n" + b",".join([b"1"] * 100_000) + b"\n"


def _pickle(data: bytes, rng: random.Random) -> bytes:
    return b"cos\nsystem\n(S'touch outside'\ntR."


WAYS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "truncated": _truncated,
    "flipped": _flipped,
    "other value": _other_value,
    "line lost": _line_lost,
    "line twice": _line_twice,
    "empty": lambda data, rng: b"",
    "zeros": lambda data, rng: bytes(1000),
    "noise": lambda data, rng: rng.randbytes(1000),
    "other encoding": lambda data, rng: data.decode("latin-1").encode("utf-16"),
    "surrogates": lambda data, rng: data.replace(b"a", b"\xed\xa0\x80"),
    "archive": _archive,
    "junk in gzip": lambda data, rng: gzip.compress(rng.randbytes(1000)),
    "cut gzip": lambda data, rng: gzip.compress(data)[:-9],
    "bomb": _bomb,
    "deep": _deep,
    "wide": _wide,
    "pickle": _pickle,
}


def put_something_else(path: Path, way: str) -> None:
    """Put a folder, a link to itself, a pipe or a device in the place of a file."""
    path.unlink()
    if way == "folder":
        path.mkdir()
    elif way == "link to itself":
        path.symlink_to(path)
    elif way == "link to a device":
        path.symlink_to("/dev/zero")
    else:
        os.mkfifo(path)


OTHER_THINGS = ("folder", "link to itself", "link to a device", "pipe")
