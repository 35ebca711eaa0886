"""Slot files of llama.cpp: every layout is found, filled and checked against the model."""

import os
from dataclasses import replace

import numpy as np
import pytest
import torch

from attangent import AttangentError
from attangent._core.files import write_json
from attangent.adapters.hub import load_causal_lm
from attangent.compression.entry import compress
from attangent.compression.session import generate_text
from attangent.serving.exports.engine_prefix import EnginePrefix, Layer, Marker
from attangent.serving.exports.entry import ExportRequest, LlamaServer, export_prompt
from attangent.serving.exports.slot_file import (
    _FORMATS,
    Section,
    fill_slot,
    find_sections,
    interleaved,
)
from benchmarks.suites.serving import llama
from tests.serving.exports.cases import slot_bytes

SIZE, HEADS, DIM = 6, 2, 16


def layers(seed, count=3):
    draw = torch.Generator().manual_seed(seed)
    return tuple(Layer(*torch.randn(2, SIZE, HEADS, DIM, generator=draw)) for _ in range(count))


PREFIX = EnginePrefix("town", Marker(list(range(SIZE)), []), layers(0), "m", 90)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("kind", ["<f4", "<f2"])
def test_a_filled_file_is_what_the_engine_would_have_written(transposed, kind):
    reference = layers(1)
    template = slot_bytes(reference, transposed, kind)
    assert fill_slot(template, PREFIX, reference) == slot_bytes(PREFIX.layers, transposed, kind)


def test_models_that_rotate_halves_keep_their_keys():
    reference = layers(1)
    halves = [Layer(torch.cat([l.keys[..., ::2], l.keys[..., 1::2]], -1), l.values) for l in PREFIX.layers]
    # A template whose keys are those of the reference as they are.
    stored = [Layer(torch.cat([l.keys[..., ::2], l.keys[..., 1::2]], -1), l.values) for l in reference]
    assert fill_slot(slot_bytes(stored), PREFIX, reference) == slot_bytes(halves)


def test_interleaved_alternates_halves():
    assert interleaved(torch.arange(6.0).view(1, 1, 6)).flatten().tolist() == [0, 3, 1, 4, 2, 5]


def test_eight_bits_round_to_the_nearest_unit():
    rows = np.random.default_rng(0).normal(size=(3, 64)).astype(np.float32)
    rows[1, :32] = 0
    form = _FORMATS[8]
    encoded = form.encode(rows)
    assert encoded.shape == (3, form.row_bytes(64)) == (3, 68)
    decoded = form.decode(encoded)
    unit = np.abs(rows.reshape(3, 2, 32)).max(axis=2, keepdims=True) / 127
    error = np.abs(decoded - rows).reshape(3, 2, 32)
    assert (error <= 0.5 * unit + 1e-3 * np.abs(rows).max()).all()
    content = bytearray(100 + encoded.nbytes)
    section = Section(100, 3, 64, form)
    section.write(content, rows)
    assert np.array_equal(section.read(bytes(content)), decoded)


def test_another_model_is_refused():
    with pytest.raises(AttangentError, match="runs another model"):
        fill_slot(slot_bytes(layers(1)), PREFIX, layers(2))


def test_values_in_the_place_of_keys_are_refused():
    reference = layers(1)
    swapped = (reference[0], *(Layer(layer.values, layer.keys) for layer in reference[1:]))
    with pytest.raises(AttangentError, match="runs another model"):
        fill_slot(slot_bytes(swapped), PREFIX, reference)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        slot_bytes(layers(1))[:-1],
        slot_bytes(layers(1, 2)),
        slot_bytes(layers(1)).replace(b"\x80\0\0\0\0\0\0\0", b"\x81\0\0\0\0\0\0\0"),
    ],
)
def test_unknown_layouts_are_refused(content):
    with pytest.raises(AttangentError, match="a layout that is not known"):
        find_sections(content, PREFIX)


def test_an_ambiguous_file_is_refused():
    twice = slot_bytes(layers(1)) * 2
    with pytest.raises(AttangentError, match="a layout that is not known"):
        find_sections(twice, replace(PREFIX))


QUESTIONS = ("Who is the mayor?", "When does the library open?", "Tell me about the town.")


def test_llama_cpp_writes_the_tokens_of_transformers(tmp_path):
    """ATTANGENT_LLAMA_MODEL and ATTANGENT_LLAMA_GGUF have the same weights in float32."""
    folder = os.environ.get("ATTANGENT_LLAMA_MODEL")
    if not llama.is_there() or not folder:
        names = ", ".join((*llama.VARIABLES, "ATTANGENT_LLAMA_MODEL"))
        pytest.skip(f"llama.cpp is not there: set {names} (an interpreter with xllamacpp)")
    model, tokenizer = load_causal_lm(folder)
    text = "The mayor of Quillan is Ingrid Vale. The library of Quillan opens at nine on Tuesdays."
    prompt = compress(model, tokenizer, [{"role": "system", "content": text}], 64, "plain")
    prompt.save(model, tmp_path / "town")
    write_json(tmp_path / "town" / "report.json", {"own": []})
    with llama.llama_server(tmp_path / "slots") as address:
        request = ExportRequest(
            tmp_path / "town", "llama.cpp", tmp_path / "out", "town", address, tmp_path / "slots"
        )
        exported = export_prompt(model, tokenizer, request).prefix
        questions = [prompt.reader.question(tokenizer, question) for question in QUESTIONS]
        answers = [
            LlamaServer(address).read([*exported.marker.ids, *question.tolist()], 16)
            for question in questions
        ]
    # The server must have used the slot instead of reading the marker.
    assert all(answer["timings"]["cache_n"] >= exported.size for answer in answers)
    prompt.attach(model)
    expected = [generate_text(model, tokenizer, question, 16) for question in questions]
    assert [answer["content"].strip() for answer in answers] == expected
    assert "Ingrid Vale" in expected[0]
