"""Compressing to a folder: a run that was cut off anywhere does nothing twice."""

import json

import pytest
import torch

from attangent import AttangentError
from attangent.compression import compressor, folder
from attangent.compression.folder import compress_to_folder
from attangent.compression.quiz.questions import Question
from attangent.compression.quiz.quiz import Quiz
from attangent.compression.request import Order
from tests.compression.cases import Letters, tiny_llama

TEXT = "some text that is long enough to be worth compressing, and then a little more. " * 2


class CutOff(Exception):
    pass


def cut_off(*_, **__):
    raise CutOff


@pytest.mark.parametrize("at", ["fit_states", "distill_states", "measure_fidelity"])
def test_a_run_cut_off_goes_on_where_it_stopped(at, tmp_path, monkeypatch):
    model, order = tiny_llama(layers=1), Order(keep=0, size=10, distill=2)
    with monkeypatch.context() as patched:
        patched.setattr(compressor, at, cut_off)
        with pytest.raises(CutOff):
            compress_to_folder(model, Letters(), TEXT, tmp_path, order)
    assert not (tmp_path / "report.json").exists()
    monkeypatch.setattr(compressor, "sample", cut_off)
    monkeypatch.setattr(compressor, "token_scores", cut_off)
    report = compress_to_folder(model, Letters(), TEXT, tmp_path, order)
    assert json.loads((tmp_path / "report.json").read_text())["size"] == report.size == 10
    assert not (tmp_path / ".work").exists()


def test_a_cut_off_run_ends_in_the_same_states(tmp_path, monkeypatch):
    model, order = tiny_llama(layers=1), Order(keep=0, size=10)
    compress_to_folder(model, Letters(), TEXT, tmp_path / "whole", order)
    with monkeypatch.context() as patched:
        patched.setattr(compressor, "fit_states", cut_off)
        with pytest.raises(CutOff):
            compress_to_folder(model, Letters(), TEXT, tmp_path / "cut", order)
    compress_to_folder(model, Letters(), TEXT, tmp_path / "cut", order)
    with monkeypatch.context() as patched:  # once fitted, never again
        patched.setattr(compressor, "measure_fidelity", cut_off)
        with pytest.raises(CutOff):
            compress_to_folder(model, Letters(), TEXT, tmp_path / "late", order)
    monkeypatch.setattr(compressor, "fit_states", None)
    compress_to_folder(model, Letters(), TEXT, tmp_path / "late", order)
    weights = [
        (tmp_path / name / "adapter_model.safetensors").read_bytes() for name in ("whole", "cut", "late")
    ]
    assert weights[0] == weights[1] == weights[2]


def test_decoding_is_timed_three_ways():
    job = compressor.Compressor(tiny_llama(layers=1), Letters(), TEXT)
    found = folder.decode_seconds(job, job.fit(10))
    assert set(found) == {"full", "compressed", "none"}
    assert all(seconds > 0 for seconds in found.values())


def test_a_filled_cache_holds_the_prompt_for_every_sequence():
    job = compressor.Compressor(tiny_llama(layers=1), Letters(), TEXT)
    cache = folder.filled_cache(job.cache, 3)
    ids = torch.arange(4).expand(3, -1)
    with torch.no_grad():
        found = job.model(ids, past_key_values=cache).logits
        whole = job.model(torch.cat([job.ids, torch.arange(4)])[None]).logits[:, len(job.ids) :]
    torch.testing.assert_close(found, whole.expand(3, -1, -1), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(("right", "met"), [("", True), ("never said", False)])
def test_a_long_prompt_is_asked_about_all_its_pieces(right, met, tmp_path, monkeypatch):
    one = Quiz((Question("what?", right),), ("never said",), ("no",))
    monkeypatch.setattr(compressor.Compressor, "quiz", one)
    model, asked = tiny_llama(layers=1, context=160), [("and who?", None)]
    report = compress_to_folder(model, Letters(), TEXT * 2, tmp_path, Order(size=10), questions=asked)
    assert report.pieces > 2
    assert len(report.own) == report.pieces
    assert report.goal["met"] is met
    assert len(report.goal["sizes"]) == report.pieces
    assert [answer.question for answer in report.answers] == ["and who?"]
    assert json.loads((tmp_path / "report.json").read_text())["goal"]["met"] is met


def test_pieces_of_a_long_prompt_are_not_trained_and_who_asks_for_it_is_told(tmp_path):
    model = tiny_llama(layers=1, context=160)
    with pytest.raises(AttangentError, match="leave --distill out"):
        compress_to_folder(model, Letters(), TEXT * 2, tmp_path / "out", Order(size=10, distill=3))
    assert not (tmp_path / "out").exists()
