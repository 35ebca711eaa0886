"""Folders of prefixes: what is written is read, and nothing damaged is."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from attangent import AttangentError
from attangent.serving.exports.engine_prefix import (
    DESCRIPTION,
    TENSORS,
    EnginePrefix,
    Layer,
    Marker,
    check_name,
    read_prefix,
    read_prefixes,
    write_prefix,
)


def prefix(name="town", seed=0):
    draw = torch.Generator().manual_seed(seed)
    layers = tuple(Layer(*torch.randn(2, 4, 2, 8, generator=draw)) for _ in range(3))
    return EnginePrefix(name, Marker([5, 6, 7, 8], [{"role": "system", "content": "a"}]), layers, "m", 90)


@pytest.fixture
def folder(tmp_path):
    return write_prefix(prefix(), tmp_path / "town", {"vllm": {"kept": 3, "asked": 4}})


def test_what_is_written_is_read(folder):
    result = read_prefix(folder)
    assert (result.name, result.marker, result.model, result.prompt_tokens, result.size) == (
        *("town", prefix().marker, "m", 90, 4),
    )
    for one, other in zip(result.layers, prefix().layers, strict=True):
        assert torch.equal(one.keys, other.keys)
        assert torch.equal(one.values, other.values)
    assert sorted(path.name for path in folder.iterdir()) == [DESCRIPTION, TENSORS]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "attangent prefix 9"}, "has the format 'attangent prefix 9'"),
        ({"size": 5}, "sizes do not agree"),
        ({"layers": 2}, "unknown settings keys.2"),
        ({"layers": 10**9}, "sizes do not agree"),
        ({"name": "../town"}, "must have 1 to 64 letters"),
        ({"digest": "0" * 12}, "does not belong to"),
        ({"marker": {"ids": "abcd", "messages": []}}, "array"),
        ({"also": 1}, "unknown settings also"),
    ],
)
def test_a_damaged_description_is_refused(folder, change, message):
    path = folder / DESCRIPTION
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(AttangentError, match=message):
        read_prefix(folder)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.zeros(4, 16), "has the shape"),
        (torch.zeros(5, 2, 8), "has the shape"),
        (torch.zeros(4, 2, 8, dtype=torch.float16), "has the dtype F16"),
        (torch.zeros(4, 2, 8), "does not belong to"),
    ],
)
def test_damaged_tensors_are_refused(folder, tensor, message):
    tensors = load_file(folder / TENSORS)
    save_file(tensors | {"keys.1": tensor}, folder / TENSORS)
    with pytest.raises(AttangentError, match=message):
        read_prefix(folder)


def test_missing_and_cut_files_are_refused(folder):
    content = (folder / TENSORS).read_bytes()
    (folder / TENSORS).write_bytes(content[:-8])
    with pytest.raises(AttangentError, match="cannot read"):
        read_prefix(folder)
    (folder / TENSORS).unlink()
    with pytest.raises(AttangentError, match="there is no file"):
        read_prefix(folder)


def test_prefixes_are_read_by_name(folder, tmp_path):
    other = write_prefix(prefix("legal", 1), tmp_path / "legal")
    assert list(read_prefixes([str(folder), str(other)])) == ["town", "legal"]
    with pytest.raises(AttangentError, match="two prefixes have the name 'town'"):
        read_prefixes([str(folder), str(folder)])
    for wrong in ([], str(folder)):
        with pytest.raises(AttangentError, match="must list folders"):
            read_prefixes(wrong)


def test_other_content_has_another_digest():
    assert prefix().digest == prefix().digest
    assert prefix().digest != prefix(seed=1).digest


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", "é", "x" * 65])
def test_names_that_are_no_file_names_are_refused(name):
    with pytest.raises(AttangentError, match="must have 1 to 64"):
        check_name(name)
