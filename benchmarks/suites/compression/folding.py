"""How much of a chat survives when its old turns are folded into the state, again and again.

Run `python -m benchmarks.suites.compression.folding [TEXT ...]`.

A user pastes one invented handbook per turn, and every turn is folded. After 1, 2 and 4 foldings the
questions on the first handbook are asked. `full` is the number that the same chat answers without folding,
`kept` how many of these are still answered. Choices were made on facts, valley and ferry. Seconds are
processor seconds on one thread. The rows go to benchmarks/results/compress_folding.json.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import torch

from attangent._core.files import write_json
from attangent.compression import ChatSession
from attangent.compression.capture import prefill
from attangent.compression.prompt import BareReader
from attangent.compression.prompt_cache import PromptForm, with_states
from attangent.compression.questions import Question
from attangent.compression.quiz import ask
from benchmarks.harness import folders
from benchmarks.suites.compression.bench_compress import smollm2

TEXTS = Path(__file__).with_name("texts")
REPORTED = ("railway", "observatory", "orchard", "theatre")
RESULTS = folders.RESULTS / "compress_folding.json"
BUDGET = 300
COUNTED = (1, 2, 4)
# The reply to a pasted text is not measured, so it is short.
_REPLY = 4


def questions_on(name: str) -> list[Question]:
    lines = (TEXTS / f"{_file(name)}_questions.tsv").read_text().splitlines()
    return [Question(*line.split("\t"), number) for number, line in enumerate(lines)]


def _file(name: str) -> str:
    return "facts" if name == "facts" else f"{name}_facts"


def right(session: ChatSession, questions: Sequence[Question], form: PromptForm) -> list[bool]:
    """Return which questions are answered as the next turn of a chat."""

    def read(text: str) -> torch.Tensor:
        assert session.reader is not None
        return session.reader.later_question(session.tokenizer, text)

    return [reply.right for reply in ask(session.model, session.tokenizer, questions, read, form)]


def rows_of(model: Any, tokenizer: Any, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield one row per number of foldings that is counted."""
    folding = ChatSession(model, tokenizer, budget=BUDGET, reader=BareReader())
    plain = ChatSession(model, tokenizer, reader=BareReader())
    questions = questions_on(names[0])
    for number, name in enumerate(names, 1):
        text = f"Please note this.\n{(TEXTS / f'{_file(name)}.txt').read_text().strip()}"
        started = time.process_time()
        folding.say(text, _REPLY)
        seconds = time.process_time() - started
        plain.say(text, _REPLY)
        assert folding.folds == number
        if number in COUNTED:
            cache = prefill(model, plain.history)
            full = right(plain, questions, PromptForm.full(cache))
            answered = [question for question, answer in zip(questions, full, strict=True) if answer]
            assert folding.prompt is not None
            form = PromptForm(folding.prompt.position_offset, with_states(folding.prompt.states))
            yield {
                "text": names[0],
                "foldings": number,
                "tokens": len(plain.history),
                "size": folding.prompt.size,
                "asked": len(questions),
                "full": len(answered),
                "kept": sum(right(copy(folding), answered, form)),
                "seconds": seconds,
            }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", nargs="*", help="the texts in order; the first is asked about")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    model, tokenizer = smollm2()
    rows = []
    for row in rows_of(model, tokenizer, options.texts or REPORTED):
        print(row, flush=True)
        rows.append(row)
    if not options.texts:
        write_json(RESULTS, rows)


if __name__ == "__main__":
    main()
