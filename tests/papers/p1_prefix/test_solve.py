"""From tuning on math problems to scored answers, by the functions behind the commands."""

import json
from dataclasses import replace

import pytest

from attangent import AttangentError
from attangent.papers.p1_prefix.math_data import read_problems, solve
from attangent.papers.p1_prefix.solve import Solving, solve_file
from attangent.tuning.finetune import Tuning, finetune, prepare
from attangent.tuning.methods import Method
from attangent.tuning.training import Training
from tests.adapters.tiny import save_llama

ROWS = [
    {"question": "1 2 ?", "answer": "the old cat\n#### 1"},
    {"question": "the new dog 3 4 ?", "answer": "the sun\n#### 3"},
    {"question": "5 ?", "answer": "the sea\n#### 5"},
]


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    folder = save_llama(tmp_path_factory.mktemp("llama"))
    (folder / "math.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return folder


def tuned(llama, out, name):
    """The folder of the adapter that was trained."""
    rate = 0.25 if name == "ntk+lora" else 0.05  # LoRA's part has a fifth of it
    method = Method(name, learning_rate=rate)
    problems = llama / "math.jsonl"
    training = Training(epochs=4, batch=3)
    given = Tuning(str(llama), problems, problems, "causal-lm", None, 40, method, training)
    finetune(given, out)
    return out / "seed-0/adapter"


def answers(llama, out, adapters=(), **own):
    solving = Solving(str(llama), llama / "math.jsonl", tuple(adapters), max_new_tokens=6, **own)
    return solve_file(solving, out), [json.loads(line) for line in out.read_text().splitlines()]


def test_a_line_for_each_problem_and_how_many_are_right(llama, tmp_path):
    found, rows = answers(llama, tmp_path / "base.jsonl")
    assert [row["question"] for row in rows] == [row["question"] for row in ROWS]
    assert [row["expected"] for row in rows] == ["1", "3", "5"]
    assert found == {
        "problems": 3,
        "right": sum(row["right"] for row in rows),
        "exact_match": found["right"] / 3,
    }
    limited, few = answers(llama, tmp_path / "few.jsonl", limit=2, batch=1)
    assert limited["problems"] == 2
    assert [row["completion"] for row in few] == [row["completion"] for row in rows[:2]]


@pytest.mark.parametrize("name", ["ntk", "lora", "prefix", "ntk+lora"])
def test_the_adapters_act(llama, tmp_path, name):
    _, before = answers(llama, tmp_path / "base.jsonl")
    found, rows = answers(llama, tmp_path / "tuned.jsonl", [tuned(llama, tmp_path, name)])
    assert [row["completion"] for row in rows] != [row["completion"] for row in before]
    assert found["problems"] == 3


def test_every_part_of_a_stack_acts(llama, tmp_path):
    both = tuned(llama, tmp_path, "ntk+lora")
    whole, lora = (answers(llama, tmp_path / "x.jsonl", [some])[1] for some in (both, both / "lora"))
    (both / "lora").rename(both.with_name("lora"))  # as 0.1 saved it
    state = answers(llama, tmp_path / "x.jsonl", [both])[1]
    given = answers(llama, tmp_path / "x.jsonl", [both.with_name("lora"), both])[1]
    assert whole == given
    assert whole not in (lora, state)


def test_answers_are_those_of_the_model_that_was_trained(llama, tmp_path):
    """At a rate of next to nothing the saved folder must answer as the adapted model did before training."""
    problems = llama / "math.jsonl"
    given = Tuning(
        str(llama), problems, problems, "causal-lm", None, 40, training=Training(epochs=1, batch=3)
    )
    still = replace(given, method=Method("ntk", learning_rate=1e-12))
    finetune(still, tmp_path)
    prepared = prepare(still)
    _, rows = answers(llama, tmp_path / "x.jsonl", [tmp_path / "seed-0/adapter"])
    own = solve(prepared.model, prepared.tokenizer, read_problems(problems), max_new_tokens=6)
    assert [row["completion"] for row in rows] == own


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"limit": 0}, "limit"),
        ({"batch": 0}, "batch"),
        ({"problems": "none.jsonl"}, "none.jsonl"),
        ({"adapters": ("none",)}, "there is no file none/adapter_config.json"),
    ],
)
def test_what_is_wrong_is_said_before_any_work(llama, tmp_path, change, message, monkeypatch):
    from pathlib import Path

    monkeypatch.setattr("attangent.papers.p1_prefix.solve.load_model", lambda *_: pytest.fail("loaded"))
    given = {"model": str(llama), "problems": llama / "math.jsonl"} | change
    given["problems"] = Path(given["problems"])
    given["adapters"] = tuple(map(Path, given.get("adapters", ())))
    with pytest.raises(AttangentError, match=message):
        solve_file(Solving(**given), tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_folders_that_are_no_adapters_are_refused(llama, tmp_path):
    folder = tmp_path / "odd"
    folder.mkdir()
    for text, message in (
        ("[]", "list"),
        ("{}", "no peft_type"),
        ('{"peft_type": "LORA"}', "no adapter_model"),
    ):
        (folder / "adapter_config.json").write_text(text)
        (folder / "adapter_model.bin").write_bytes(b"pickled")
        with pytest.raises(AttangentError, match=message):
            answers(llama, tmp_path / "out.jsonl", [folder])


def test_two_of_one_kind_are_refused(llama, tmp_path, monkeypatch):
    folder = tuned(llama, tmp_path, "ntk")
    monkeypatch.setattr("attangent.papers.p1_prefix.solve.load_model", lambda *_: pytest.fail("loaded"))
    with pytest.raises(AttangentError, match="at most one of each"):
        answers(llama, tmp_path / "out.jsonl", [folder, folder])


def test_there_must_be_a_place_for_the_answers(llama, tmp_path):
    with pytest.raises(AttangentError, match="it is a folder"):
        answers(llama, tmp_path)
    with pytest.raises(AttangentError, match="there is no folder"):
        answers(llama, tmp_path / "none" / "out.jsonl")
