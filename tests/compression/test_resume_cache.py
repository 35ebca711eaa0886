"""What a run keeps: used again by the same run, not by another, and refused where it is broken."""

import pytest
import torch

from attangent import AttangentError
from attangent.compression.resume_cache import Work


def never():
    raise AssertionError("made again")


def test_what_was_kept_is_not_made_again(tmp_path):
    work = Work(tmp_path, ["a", 1])
    made = work.tensors("text", lambda: {"ids": torch.arange(3)})
    assert work.notes("quiz", lambda: {"full": ["x"]}) == {"full": ["x"]}
    again = Work(tmp_path, ["a", 1])
    assert torch.equal(again.tensors("text", never)["ids"], made["ids"])
    assert again.notes("quiz", never) == {"full": ["x"]}
    again.finish()
    assert list(tmp_path.iterdir()) == []


def test_another_run_starts_anew_and_clears_the_old_one(tmp_path):
    Work(tmp_path, 1).notes("quiz", lambda: 1)
    other = Work(tmp_path, 2)
    assert other.notes("quiz", lambda: 2) == 2
    assert other.place is not None
    assert [path.name for path in other.place.parent.iterdir()] == [other.place.name]


def test_broken_files_are_refused(tmp_path):
    work = Work(tmp_path, 1)
    for name in ("quiz.json", "text.safetensors"):
        path = work.path(name)
        assert path is not None
        path.write_bytes(b"nonsense")
    with pytest.raises(AttangentError, match="remove it to start anew"):
        work.notes("quiz", never)
    with pytest.raises(AttangentError, match="remove it to start anew"):
        work.tensors("text", never)


def test_without_a_folder_nothing_is_kept():
    assert Work().notes("quiz", lambda: 5) == 5
    assert Work().path("x") is None
