"""Settings from files."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from attangent import AttangentError
from attangent._core.checks import check_size
from attangent._core.settings import read_json, read_toml, settings_of


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
