"""Documents of different kinds with 25 questions each.

Run `python -m benchmarks.suites.compression.documents [NAME]`.

The texts and questions in texts/documents/reported were written before the first run; nothing was chosen on
them. Those in texts/documents/building served to choose the settings and the quiz. Every method gets the same
number of bytes, 8 and 16 times less than the full prompt. `recall` is trained if its own quiz keeps less than
95 %; `claimed` is the share that its quiz reports. Seconds are processor seconds on one thread. Rows go to
benchmarks/results/compress_documents.json; those that are there already are left out unless `--again` is
given. `--only` measures one method. An interrupted run resumes; its seconds then leave out what was stored.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch

from attangent._core.files import real_folder, write_json
from attangent.compression import CompressionRequest
from attangent.compression.pipeline import CompressionRun
from attangent.compression.prompt_cache import PromptForm
from attangent.compression.questions import Question
from attangent.compression.quiz import facts_kept
from benchmarks.harness import folders
from benchmarks.suites.compression.bench_compress import WORK, smollm2
from benchmarks.suites.compression.prompts import DOCUMENTS, EARLIER_DOCUMENTS
from benchmarks.suites.compression.rivals import Entry, Presses, matching_by_sizes, sculpted

TEXTS = Path(__file__).with_name("texts") / "documents"
RESULTS = folders.RESULTS / "compress_documents.json"
TIMES = (8, 16)
PRESSES = ("KVzip", "KVgrad", "KVCompose")
MATCHING = "Attention Matching"
SCULPTING = "KVSculpt"
FULL = "full prompt"
METHODS = ("recall", *PRESSES, MATCHING, SCULPTING)
KEEP = 0.95


def hand_written(name: str) -> list[Question]:
    """Return the questions of a document."""
    lines = next(TEXTS.rglob(f"{name}.tsv")).read_text().splitlines()
    pairs = [line.split("\t") for line in lines]
    return [Question(text, expected, number) for number, (text, expected) in enumerate(pairs)]


def run_of(model: Any, tokenizer: Any, name: str) -> CompressionRun:
    text = next(TEXTS.rglob(f"{name}.md")).read_text().strip()
    request = CompressionRequest([{"role": "system", "content": text}])
    return CompressionRun(model, tokenizer, request, folder=real_folder(WORK / f"document-{name}"))


def trained_if_needed(run: CompressionRun, size: int) -> tuple[Any, float]:
    """Return the compressed prompt of this size and the share of facts that its quiz claims."""
    best = run.fit(size)
    share = _claimed(run, best)
    if share < KEEP:
        trained = run.distill(best)
        if _claimed(run, trained) >= share:
            best = trained
            share = _claimed(run, trained)
    return best, share


def _claimed(run: CompressionRun, prompt: Any) -> float:
    facts = facts_kept(run.answers(prompt))
    return sum(facts.values()) / max(1, len(facts))


def rows_of(
    run: CompressionRun,
    name: str,
    known: Collection[tuple[str, int]] = (),
    times: Sequence[int] = TIMES,
) -> Iterator[dict[str, Any]]:
    """Yield one row for the full prompt, and one per method and size; known ones are left out."""
    questions = hand_written(name)
    full = run._ask(questions, PromptForm.full(run.cache))
    answered = [question for question, reply in zip(questions, full, strict=True) if reply.right]
    about = {"document": name, "tokens": len(run.ids), "facts": run.quiz.facts}
    if (FULL, 1) not in known:
        yield {**about, "method": FULL, "times": 1, "kept": len(answered), "asked": len(questions)}

    def kept(states: Any) -> int:
        replies = run._ask(answered, PromptForm.compressed(run.cache, states))
        return sum(reply.right for reply in replies)

    sizes = {many: len(run.ids) // many for many in times}
    for many, size in sizes.items():
        if ("recall", many) not in known:
            started = time.process_time()
            prompt, share = trained_if_needed(run, size)
            row = {"method": "recall", "times": many, "kept": kept(prompt.states), "claimed": share}
            yield {**about, **row, "trained": prompt.distilled, "seconds": time.process_time() - started}
    for method, many, entry in _rivals(run, sizes, known):
        row = {"method": method, "times": many, "kept": kept(entry.states), "seconds": entry.seconds}
        yield {**about, **row}


def _rivals(
    run: CompressionRun, sizes: Mapping[int, int], known: Collection[tuple[str, int]]
) -> Iterator[tuple[str, int, Entry]]:
    """Yield what each rival makes of a prompt, with its name and how many times smaller it is."""
    wanted = [(press, many) for press in PRESSES for many in sizes if (press, many) not in known]
    with tempfile.TemporaryDirectory() as folder:
        presses = Presses(run, [(press, sizes[many]) for press, many in wanted], Path(folder))
        for press, many in wanted:
            yield press, many, presses.entry(press, sizes[many])
    for many, size in sizes.items():
        if (MATCHING, many) not in known:
            # Head sizes from this prompt's own scores; the published recipe measures them once per model.
            yield MATCHING, many, matching_by_sizes(run, size, run.scores)
        if (SCULPTING, many) not in known:
            yield SCULPTING, many, sculpted(run, size)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return Markdown: answers kept of those of the full prompt, by document, method and size."""
    names = list(dict.fromkeys(row["document"] for row in rows))
    lines = [f"| answers kept | {' | '.join(names)} | total |", f"|---|{'---:|' * (len(names) + 1)}"]
    for many, _, method in sorted({(row["times"], row["method"] != "recall", row["method"]) for row in rows}):
        chosen = {row["document"]: row for row in rows if (row["method"], row["times"]) == (method, many)}
        counts = [str(chosen[name]["kept"]) if name in chosen else "-" for name in names]
        label = method if many == 1 else f"{method}, {many}x"
        total = str(sum(row["kept"] for row in chosen.values()))
        total += f" ({len(chosen)})" if len(chosen) < len(names) else ""
        lines.append(f"| {label} | {' | '.join(counts)} | {total} |")
        if any("claimed" in row for row in chosen.values()):
            claims = [
                f"{chosen[name]['claimed']:.0%} of {chosen[name]['facts']}" if name in chosen else "-"
                for name in names
            ]
            facts = sum(row["facts"] for row in chosen.values())
            kept = sum(row["claimed"] * row["facts"] for row in chosen.values())
            lines.append(f"| its quiz claims | {' | '.join(claims)} | {kept / facts:.0%} of {facts} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join((*DOCUMENTS, *EARLIER_DOCUMENTS))}")
    parser.add_argument("--only", choices=METHODS, help="the only method to measure")
    parser.add_argument("--again", action="store_true", help="measure again what is known")
    parser.add_argument("--times", type=int, nargs="+", default=TIMES, help="how many times smaller")
    given = parser.parse_args(arguments)
    wanted = {given.only} if given.only else {FULL, *METHODS}
    torch.set_num_threads(1)
    rows = json.loads(RESULTS.read_text()) if RESULTS.is_file() else []
    model, tokenizer = smollm2()
    for name in given.names or DOCUMENTS:
        if given.again:
            again = {(method, many) for method in wanted for many in (1, *given.times)}
            rows = [
                row for row in rows if row["document"] != name or (row["method"], row["times"]) not in again
            ]
        known = {(row["method"], row["times"]) for row in rows if row["document"] == name}
        everything = {(FULL, 1), *product(METHODS, given.times)}
        unwanted = {(method, many) for method, many in everything if method not in wanted}
        if known | unwanted >= everything:
            continue
        for row in rows_of(run_of(model, tokenizer, name), name, known | unwanted, given.times):
            rows.append(row)
            if name in (*DOCUMENTS, *EARLIER_DOCUMENTS):
                write_json(RESULTS, rows)
    print(table(rows))


if __name__ == "__main__":
    main()
