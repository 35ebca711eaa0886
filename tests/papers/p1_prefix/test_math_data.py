"""Math problems: reading, prompts, answers, scores."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attangent import AttangentError
from attangent.papers.p1_prefix.math_data import (
    Problem,
    boxed,
    extract_answer,
    normalised,
    problem_of,
    read_problems,
    same_answer,
    score_answers,
    solve,
)
from attangent.tuning import TrainingSettings, TuningRequest, load_tuned, tune
from tests.adapters.tiny import save_llama

GSM8K = {"question": "How many?", "answer": "2+3=<<2+3=5>>5 apples.\n#### 1,005"}
MATH = {"problem": "Find $x$.", "solution": "So $x=\\boxed{\\frac{1}{2}}$.", "level": "Level 1"}


def test_gsm8k_loses_its_calculator_marks():
    assert problem_of(GSM8K) == Problem("How many?", "2+3=5 apples.", "1,005")


def test_math_takes_the_box_for_the_answer():
    assert problem_of(MATH).answer == "\\frac{1}{2}"
    assert problem_of({**MATH, "answer": "0.5"}).answer == "0.5"


def test_completion_ends_in_the_answer_after_the_prompt():
    made = problem_of(GSM8K).completion()
    assert "Problem: How many?\n" in made.prompt
    assert made.text == " 2+3=5 apples.\nThe answer is: 1,005"
    assert extract_answer(made.text) == "1,005"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("So it is 3. The answer is: 12.", "12"),
        ("The answer is: 1\nno, The answer is: $\\boxed{2}$.", "2"),
        ("thus \\boxed{a_{1}} holds", "a_{1}"),
        ("#### 7", "7"),
        ("first 3 then -4.5", "-4.5"),
        ("nothing here", None),
        ("The answer is:", None),
    ],
)
def test_answers_are_found(text, answer):
    assert extract_answer(text) == answer


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("1,000", "1000", True),
        ("5.0", "5", True),
        ("1/2", "\\frac{1}{2}", True),
        ("-\\frac{1}{2}", "-0.5", True),
        ("\\left( 3, \\frac{\\pi}{2} \\right)", "(3,\\frac{\\pi}{2})", True),
        ("90^\\circ", "90", True),
        ("\\text{Evelyn}", "Evelyn", True),
        ("\\sqrt2", "\\sqrt{2}", True),
        ("(1,200)", "(1,201)", False),
        ("x", "y", False),
        ("1/0", "1", False),
    ],
)
def test_same_answers(first, second, same):
    assert same_answer(first, second) is same
    assert same_answer(second, first) is same


@given(st.text(alphabet="ab1{}\\ ", max_size=12))
def test_boxes_hold_what_was_put_in_when_braces_match(text):
    depth, balanced = 0, True
    for letter in text:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        balanced &= depth >= 0
    if balanced and depth == 0:
        assert boxed(f"x \\boxed{{{text}}} y") == text
    assert boxed("no box " + text.replace("boxed", "")) is None


@given(st.integers(-(10**9), 10**9))
def test_numbers_are_the_same_however_they_are_written(number):
    assert same_answer(f"${number:,}", str(number))
    assert same_answer(f"{number}.00", str(number))
    assert not same_answer(str(number + 1), str(number))


def test_normalising_twice_changes_nothing_more():
    for text in ("\\dfrac12", "\\text{a b}", "1,234,567", "\\sqrt x"):
        assert normalised(normalised(text)) == normalised(text)


def test_scores():
    problems = [Problem("", "", "5"), Problem("", "", "\\frac12")]
    found = score_answers(["The answer is: 5.", "I think 3"], problems)
    assert found.accuracy == 0.5
    assert found.answers == ("5", "3")
    with pytest.raises(AttangentError, match="1 completions for 2 problems"):
        score_answers(["5"], problems)


def test_files(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(GSM8K) + "\n" + json.dumps(MATH) + "\n")
    assert [problem.answer for problem in read_problems(path)] == ["1,005", "\\frac{1}{2}"]
    path.write_text(json.dumps(GSM8K) + "\n" + json.dumps({"question": "?", "answer": "4"}))
    with pytest.raises(AttangentError, match=r"row 2: the answer does not end in '#### '"):
        read_problems(path)
    path.write_text(json.dumps({"problem": "?", "solution": "none"}))
    with pytest.raises(AttangentError, match=r"no .boxed answer"):
        read_problems(path)
    path.write_text(json.dumps({"text": "?"}))
    with pytest.raises(AttangentError, match="expected question and answer"):
        read_problems(path)
    path.write_text("")
    with pytest.raises(AttangentError, match="has no rows"):
        read_problems(path)


def test_problems_are_tuned_on_and_answered(tmp_path):
    folder = save_llama(tmp_path / "llama")
    rows = [{"question": f"{a} {b} ?", "answer": f"{a} .\n#### {a}"} for a in range(4) for b in range(5)]
    (tmp_path / "math.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pairs = [problem.completion("{question}") for problem in read_problems(tmp_path / "math.jsonl")]
    lines = [json.dumps({"prompt": pair.prompt, "completion": pair.text}) + "\n" for pair in pairs]
    (tmp_path / "rows.jsonl").write_text("".join(lines))
    training = TrainingSettings(epochs=1, batch=8)
    request = TuningRequest(str(folder), tmp_path / "rows.jsonl", task="causal-lm", training=training)
    (metrics,) = tune(request, tmp_path / "run")
    assert "eval_accuracy" not in metrics
    tuned = load_tuned(tmp_path / "run")
    problems = [Problem("1 2 ?", "", "1"), Problem("the old cat 3 4 ?", "", "3")]
    texts = solve(tuned.model, tuned.tokenizer, problems, max_new_tokens=4, batch=2)
    alone = [solve(tuned.model, tuned.tokenizer, [problem], max_new_tokens=4)[0] for problem in problems]
    assert texts == alone  # padding on the left changes nothing
    assert 0 <= score_answers(texts, problems).accuracy <= 1
