"""Math word problems of P1 Section 5: prompts, answers and their exact match.

GSM8K rows have a question and an answer that ends in `#### 72`; MATH rows have a problem and a solution with
its answer in `\\boxed{...}`. The prompt requests an answer that ends with "The answer is: ...".
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import torch

from attangent._core.errors import AttangentError
from attangent.tuning.data.text import Completion, parsed_records

PROMPT = (
    "Solve this problem. Show the steps, then end with 'The answer is:' and the answer.\n\n"
    "Problem: {question}\n\nSolution:"
)
_SAYS = re.compile(r"the answer is:?\s*", re.IGNORECASE)
_CALCULATOR = re.compile(r"<<[^<>]*>>")
_NUMBER = re.compile(r"-?\$?\d[\d,]*(?:\.\d+)?(?:/\d+)?")


@dataclass(frozen=True)
class Problem:
    """A question, the worked solution without its final answer line, and the answer."""

    question: str
    solution: str
    answer: str

    def prompt(self, template: str = PROMPT) -> str:
        """Return the question in a prompt."""
        return template.format(question=self.question)

    def completion(self, template: str = PROMPT) -> Completion:
        """Return the training pair: the prompt, then solution and answer."""
        return Completion(self.prompt(template), f" {self.solution}\nThe answer is: {self.answer}")


def read_problems(path: Path) -> list[Problem]:
    """Read the problems of a GSM8K or MATH file."""
    return parsed_records(path, problem_of, "GSM8K or MATH problems")


def problem_of(row: dict[str, Any]) -> Problem:
    """Parse one row of GSM8K (question, answer) or MATH (problem, solution).

    >>> problem_of({"question": "1+1?", "answer": "It is 1+1=<<1+1=2>>2.\\n#### 2"})
    Problem(question='1+1?', solution='It is 1+1=2.', answer='2')
    """
    if isinstance(row.get("problem"), str) and isinstance(row.get("solution"), str):
        answer = row.get("answer") or boxed(row["solution"])
        if not answer:
            raise AttangentError("the solution has no \\boxed answer, expected one")
        return Problem(row["problem"].strip(), row["solution"].strip(), str(answer))
    if isinstance(row.get("question"), str) and isinstance(row.get("answer"), str):
        solution, mark, answer = row["answer"].rpartition("####")
        if not mark:
            raise AttangentError("the answer does not end in '#### ' and a number, as in GSM8K")
        return Problem(row["question"].strip(), _CALCULATOR.sub("", solution).strip(), answer.strip())
    raise AttangentError("expected question and answer (GSM8K) or problem and solution (MATH)")


def boxed(text: str) -> str | None:
    """Return the content of the last \\boxed{...} or \\fbox{...}; None if there is none.

    >>> boxed(r"so $x=\\boxed{\\frac{1}{2}}$")
    '\\\\frac{1}{2}'
    """
    starts = [match.end() for match in re.finditer(r"\\(?:boxed|fbox)\s*\{", text)]
    if not starts:
        return None
    depth = 1
    for index in range(starts[-1], len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return text[starts[-1] : index]
    return None


def extract_answer(text: str) -> str | None:
    """Return the answer in a completion: after "the answer is", in a box, after ####, or its last number.

    >>> extract_answer("3 + 4 = 7. The answer is: 7.")
    '7'
    """
    phrases = list(_SAYS.finditer(text))
    if phrases:
        line = text[phrases[-1].end() :].split("\n")[0].strip()
        return boxed(line) or line.rstrip(". ") or None
    if boxed(text) is not None:
        return boxed(text)
    if "####" in text:
        return text.rpartition("####")[2].split("\n")[0].strip() or None
    numbers = _NUMBER.findall(text)
    return numbers[-1] if numbers else None


def same_answer(answer: str | None, expected: str) -> bool:
    """Compare answers without spaces, dollar signs, thousands separators, \\left and \\text.

    Two numbers are compared as numbers.

    >>> same_answer("$1,200.00", "1200"), same_answer(r"\\dfrac12", r"\\frac{1}{2}"), same_answer("12", "21")
    (True, True, False)
    """
    if answer is None:
        return False
    first = normalised(answer)
    second = normalised(expected)
    return first == second or (_number(first) is not None and _number(first) == _number(second))


_REMOVED = (
    *("\\left", "\\right", "\\!", "\\,", "\\;", "\\ ", "\\$", "$"),
    *("\\%", "%", "^\\circ", "^{\\circ}", " "),
)


def normalised(answer: str) -> str:
    """Return an answer in a form in which equal answers are equal strings."""
    answer = re.sub(r"\\(?:text|mathrm|textbf|mbox)\{([^{}]*)\}", r"\1", answer.strip().rstrip("."))
    answer = answer.replace("dfrac", "frac").replace("tfrac", "frac")
    for part in _REMOVED:
        answer = answer.replace(part, "")
    answer = re.sub(r"\\frac(\d)(\d)", r"\\frac{\1}{\2}", answer)
    answer = re.sub(r"\\sqrt(\w)", r"\\sqrt{\1}", answer)
    return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", answer)


def _number(text: str) -> Decimal | None:
    fraction = re.fullmatch(r"(-?)(?:\\frac\{(-?\d+)\}\{(\d+)\}|(-?\d+)/(\d+))", text)
    try:
        if fraction:
            top = fraction[2] or fraction[4]
            bottom = fraction[3] or fraction[5]
            return Decimal(f"{fraction[1]}1") * Decimal(top) / Decimal(bottom)
        return Decimal(text)
    except (InvalidOperation, ZeroDivisionError):
        return None


@dataclass(frozen=True)
class MathScore:
    """Fraction of right answers, the answers, and whether each is right."""

    accuracy: float
    answers: tuple[str | None, ...]
    right: tuple[bool, ...]


def score_answers(completions: Sequence[str], problems: Sequence[Problem]) -> MathScore:
    """Score completions by the exact match of their answers."""
    if len(completions) != len(problems) or not problems:
        raise AttangentError(
            f"{len(completions)} completions for {len(problems)} problems, expected one each"
        )
    answers = tuple(extract_answer(text) for text in completions)
    pairs = zip(answers, problems, strict=True)
    right = tuple(same_answer(answer, problem.answer) for answer, problem in pairs)
    return MathScore(sum(right) / len(right), answers, right)


def solve(
    model: Any,
    tokenizer: Any,
    problems: Sequence[Problem],
    *,
    max_new_tokens: int = 256,
    batch: int = 8,
    template: str = PROMPT,
    report: Callable[[int], None] = lambda done: None,
) -> list[str]:
    """Complete the prompts greedily, padded on the left."""
    texts: list[str] = []
    was_training = model.training
    model.eval()
    for chosen in _batches(problems, batch):
        prompts = [problem.prompt(template) for problem in chosen]
        inputs = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
        inputs = {name: inputs[name].to(model.device) for name in ("input_ids", "attention_mask")}
        with torch.no_grad():
            generated = model.generate(
                **inputs, max_new_tokens=max_new_tokens, do_sample=False, pad_token_id=tokenizer.pad_token_id
            )
        texts += tokenizer.batch_decode(
            generated[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True
        )
        report(len(texts))
    model.train(was_training)
    return texts


def _batches(problems: Sequence[Problem], size: int) -> Iterable[Sequence[Problem]]:
    return (problems[start : start + size] for start in range(0, len(problems), size))
