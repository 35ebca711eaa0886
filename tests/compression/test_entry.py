"""Compressing from end to end: exact results, resumed runs, and requests that cannot be carried out."""

import json

import pytest
import torch

import attangent
from attangent import AttangentError
from attangent.compression import entry, pieces, pipeline
from attangent.compression.entry import compress, compress_to_folder
from attangent.compression.pipeline import CompressionRun
from attangent.compression.questions import Question
from attangent.compression.quiz import Quiz
from attangent.compression.request import CompressionRequest
from attangent.compression.result import filled_cache
from tests.compression.cases import Letters, run_of, tiny_llama

TEXT = "some text that is long enough to be worth compressing, and then a little more. " * 2


def tokens(text):
    return torch.tensor(Letters()(text)["input_ids"])[None]


def behind(model, prompt, text):
    with torch.no_grad():
        return model(torch.cat([tokens(prompt), tokens(text)], dim=1)).logits[:, len(prompt) :]


@pytest.fixture
def model():
    return tiny_llama()


def test_a_prompt_no_longer_than_the_size_is_kept_exactly(model):
    expected = behind(model, "short", "question")
    found = attangent.compress(model, Letters(), "short", size=8)
    assert found.exact
    assert found.size == 5
    found.attach(model)
    torch.testing.assert_close(model(tokens("question")).logits, expected, atol=1e-4, rtol=1e-4)
    attangent.detach(model)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_models_in_half_precision_are_compressed_and_trained(model, dtype):
    job = run_of(model.to(dtype), Letters(), TEXT)
    fitted = job.fit(8)
    trained = job.distill(fitted, 2)
    assert trained.distilled == 2
    for prompt in (fitted, trained):
        tensors = [tensor for state in prompt.states.values() for tensor in state.state_dict().values()]
        assert {tensor.dtype for tensor in tensors if tensor.is_floating_point()} == {torch.float32}
        prompt.attach(model)
        logits = model(tokens("question")).logits
        attangent.detach(model)
        assert logits.dtype == dtype
        assert logits.isfinite().all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": ""}, "prompt is empty"),
        ({"size": 0}, "size is 0"),
        ({"size": 4}, "always kept"),
        ({"method": "magic"}, "method is 'magic', expected one of recall, plain"),
        ({"distill": -1}, "distill is -1"),
        ({"tokenizer": Letters(999)}, "belongs to another model"),
        ({"calibration": []}, "no calibration text"),
    ],
)
def test_what_cannot_be_compressed_is_refused(model, changes, message):
    given = {"tokenizer": Letters(), "prompt": TEXT} | changes
    with pytest.raises(AttangentError, match=message):
        compress(model, **given)


def test_a_model_with_adapters_is_refused(model):
    compress(model, Letters(), "short").attach(model)
    with pytest.raises(AttangentError, match="adapters attached"):
        compress(model, Letters(), TEXT)


def test_the_same_seed_gives_the_same_states(model):
    texts = TEXT * 6
    one, same = (compress(model, Letters(), texts, size=10, distill=2, seed=3) for _ in range(2))
    other = compress(model, Letters(), texts, size=10, distill=2, seed=4)
    for name, state in one.states.items():
        assert torch.equal(state.Z, same.states[name].Z)
        # The seed decides the order of the rows in training.
        assert not torch.equal(state.Z, other.states[name].Z)
    assert one.distilled == 2


def test_every_stage_reports_its_progress(model):
    seen = []
    compress(model, Letters(), TEXT, size=10, distill=2, progress=lambda *stage: seen.append(stage))
    assert list(dict.fromkeys(name for name, _, _ in seen)) == [
        "reading",
        "scoring",
        "fitting",
        "distilling",
        "making questions",
        "asking",
    ]
    assert ("distilling", 2, 2) in seen


class CutOff(Exception):
    pass


def cut_off(*_, **__):
    raise CutOff


@pytest.mark.parametrize("at", ["fit_states", "distill_states", "measure_fidelity"])
def test_a_run_cut_off_goes_on_where_it_stopped(at, tmp_path, monkeypatch):
    model, request = tiny_llama(layers=1), CompressionRequest(TEXT, keep=0, size=10, distill=2)
    with monkeypatch.context() as patched:
        patched.setattr(pipeline, at, cut_off)
        with pytest.raises(CutOff):
            compress_to_folder(model, Letters(), request, tmp_path)
    assert not (tmp_path / "report.json").exists()
    # What was done before the cut is not done again.
    for done in ["token_scores", *(["sample", "fit_states"] if at == "measure_fidelity" else [])]:
        monkeypatch.setattr(pipeline, done, cut_off)
    report = compress_to_folder(model, Letters(), request, tmp_path)
    assert json.loads((tmp_path / "report.json").read_text())["size"] == report.size == 10
    assert not (tmp_path / ".work").exists()


def test_a_cut_off_run_ends_in_the_same_states(tmp_path, monkeypatch):
    model, request = tiny_llama(layers=1), CompressionRequest(TEXT, keep=0, size=10)
    compress_to_folder(model, Letters(), request, tmp_path / "whole")
    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "fit_states", cut_off)
        with pytest.raises(CutOff):
            compress_to_folder(model, Letters(), request, tmp_path / "cut")
    compress_to_folder(model, Letters(), request, tmp_path / "cut")
    with monkeypatch.context() as patched:  # once fitted, never again
        patched.setattr(pipeline, "measure_fidelity", cut_off)
        with pytest.raises(CutOff):
            compress_to_folder(model, Letters(), request, tmp_path / "late")
    monkeypatch.setattr(pipeline, "fit_states", None)
    compress_to_folder(model, Letters(), request, tmp_path / "late")
    weights = [
        (tmp_path / name / "adapter_model.safetensors").read_bytes() for name in ("whole", "cut", "late")
    ]
    assert weights[0] == weights[1] == weights[2]


def test_decoding_is_timed_three_ways(monkeypatch):
    job = run_of(tiny_llama(layers=1), Letters(), TEXT)
    monkeypatch.setattr(entry, "_STEADY", 0.5)
    assert entry.decode_seconds(job, job.fit(10)) == {}
    monkeypatch.setattr(entry, "_STEADY", 1e6)
    found = entry.decode_seconds(job, job.fit(10))
    assert set(found) == {"full", "compressed", "none"}
    assert all(seconds > 0 for seconds in found.values())


def test_a_filled_cache_holds_the_prompt_for_every_sequence():
    job = run_of(tiny_llama(layers=1), Letters(), TEXT)
    cache = filled_cache(list(job.cache.layers.values()), 3)
    ids = torch.arange(4).expand(3, -1)
    with torch.no_grad():
        found = job.model(ids, past_key_values=cache).logits
        whole = job.model(torch.cat([job.ids, torch.arange(4)])[None]).logits[:, len(job.ids) :]
    torch.testing.assert_close(found, whole.expand(3, -1, -1), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(("right", "met"), [("", True), ("never said", False)])
def test_a_long_prompt_is_asked_about_all_its_pieces(right, met, tmp_path, monkeypatch):
    one = Quiz((Question("what?", right),), ("never said",), ("no",), candidates=4)
    monkeypatch.setattr(CompressionRun, "quiz", one)
    model, asked = tiny_llama(layers=1, context=160), [("and who?", None)]
    report = compress_to_folder(
        model, Letters(), CompressionRequest(TEXT * 2, size=10, questions=asked), tmp_path
    )
    assert report.pieces > 2
    assert len(report.own) == report.pieces
    assert report.candidates == 4 * report.pieces
    assert report.goal["met"] is met
    assert len(report.goal["sizes"]) == report.pieces
    assert [answer.question for answer in report.answers] == ["and who?"]
    assert json.loads((tmp_path / "report.json").read_text())["goal"]["met"] is met


def test_pieces_of_a_long_prompt_are_not_trained_and_who_asks_for_it_is_told(tmp_path):
    model = tiny_llama(layers=1, context=160)
    with pytest.raises(AttangentError, match="leave --distill out"):
        compress_to_folder(
            model, Letters(), CompressionRequest(TEXT * 2, size=10, distill=3), tmp_path / "out"
        )
    assert not (tmp_path / "out").exists()


def test_a_prompt_whose_cost_would_grow_with_its_square_is_compressed_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(entry, "_WHOLE", 100)
    for module in (entry, pieces):
        monkeypatch.setattr(module, "PIECE", 120)
    model = tiny_llama(layers=1)
    text = TEXT * 3
    report = compress_to_folder(model, Letters(), CompressionRequest(text, keep=0, size=48), tmp_path / "out")
    assert report.pieces == 4
    assert report.size == 48
    assert compress(model, Letters(), text, size=48).position_offset == len(text)
    # Training needs the whole prompt.
    trained = CompressionRequest(text, keep=0, size=48, distill=2)
    assert compress_to_folder(model, Letters(), trained, tmp_path / "trained").pieces == 1
