"""`attangent compress` as a newcomer runs it, all defaults.

Run `python -m benchmarks.suites.compression.newcomers [TEXT]`.

The texts are in benchmarks/suites/compression/texts/newcomers, each with questions that a reader of it
would ask; the command never sees these. Choices were made on `library` and `pump`; the others are reported.
Each row has the wall-clock seconds of the whole command on two threads, what it found, and how many of the
reader's questions are answered behind the full text and by `attangent generate` behind the adapter. Rows go
to benchmarks/results/compress_newcomers.json; texts that are there already are left out unless `--again` is
given.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from attangent._core.files import write_json
from attangent.compression import CompressionRequest, load_compressed
from attangent.compression.pipeline import CompressionRun
from attangent.compression.prompt_cache import PromptForm
from attangent.compression.quiz import ANSWER_TOKENS, answers_by, holds_words
from attangent.compression.session import generate_text
from benchmarks.harness import folders
from benchmarks.suites.compression.bench_compress import smollm2, smollm2_folder

TEXTS = Path(__file__).with_name("texts") / "newcomers"
RESULTS = folders.RESULTS / "compress_newcomers.json"
BUILT_ON = ("library", "pump")
REPORTED = ("school", "campsite", "warehouse", "club", "minutes")
_GOAL_NOT_MET = 3


def compressed(name: str, out: Path) -> dict[str, Any]:
    """What the default command makes of a text, and how long it takes in all."""
    command = [sys.executable, "-m", "attangent", "compress", "--quiet", "--model", str(smollm2_folder())]
    command += ["--prompt", str(TEXTS / f"{name}.txt"), "--out", str(out)]
    started = time.perf_counter()
    done = subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "2"}, check=False)
    seconds = time.perf_counter() - started
    if done.returncode not in (0, _GOAL_NOT_MET):
        raise SystemExit(f"attangent compress ended with {done.returncode} on {name}")
    report = json.loads((out / "report.json").read_text())
    names = ("prompt_tokens", "size", "distilled", "kept", "asked", "ratio", "bytes_of_states")
    return {
        "text": name,
        "in_all": seconds,
        **{part: report[part] for part in names},
        "times": report["bytes_of_cache"] / report["bytes_of_states"],
        "met": report["goal"]["met"],
        "attempts": report["goal"]["attempts"],
        "seconds": report["seconds"],
    }


def reader_counts(name: str, out: Path) -> dict[str, int]:
    """How many of a reader's questions are answered: with the whole text, and behind the adapter."""
    torch.set_num_threads(2)
    model, tokenizer = smollm2()
    lines = (TEXTS / f"{name}_questions.tsv").read_text().splitlines()
    asked, words = zip(*(line.split("\t") for line in lines), strict=True)
    chat = [{"role": "system", "content": (TEXTS / f"{name}.txt").read_text().strip()}]
    job = CompressionRun(model, tokenizer, CompressionRequest(chat))
    rows = [job.reader.question(tokenizer, question) for question in asked]
    full = answers_by(model, tokenizer, rows, PromptForm.full(job.cache), ANSWER_TOKENS)
    reader = load_compressed(model, tokenizer, out)
    rows = [reader.question(tokenizer, text) for text in asked]
    small = [generate_text(model, tokenizer, ids, ANSWER_TOKENS) for ids in rows]
    return {"questions": len(asked), "full": _right(full, words), "behind": _right(small, words)}


def _right(said: Sequence[str], words: Sequence[str]) -> int:
    return sum(holds_words(text, word) for text, word in zip(said, words, strict=True))


def table(rows: Sequence[dict[str, Any]]) -> str:
    lines = [
        "| text | tokens | for each head | times smaller | own answers kept | a reader's questions: full, "
        "compressed | ratio | seconds, in all |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        trained = f", {row['distilled']} steps" if row["distilled"] else ""
        reader = row["reader"]
        lines.append(
            f"| {row['text']} | {row['prompt_tokens']} | {row['size']}{trained} | {row['times']:.1f} "
            f"| {row['kept']} of {row['asked']} | {reader['full']}, {reader['behind']} of "
            f"{reader['questions']} | {row['ratio']:.3f} | {row['in_all']:.0f} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", nargs="*", help=f"some of {', '.join((*BUILT_ON, *REPORTED))}")
    parser.add_argument("--again", action="store_true", help="measure again what is known")
    given = parser.parse_args(arguments)
    rows = {row["text"]: row for row in json.loads(RESULTS.read_text())} if RESULTS.is_file() else {}
    for name in given.texts or REPORTED:
        if name in rows and not given.again:
            continue
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / name
            row = compressed(name, out)
            rows[name] = row | {"reader": reader_counts(name, out)}
        write_json(RESULTS, list(rows.values()))
    print(table(list(rows.values())))


if __name__ == "__main__":
    main()
