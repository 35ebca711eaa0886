"""Write docs/results.md, all headline tables on one page: `python -m docs.tools.results`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.suites.compression import documents, means
from benchmarks.suites.compression.prompts import DOCUMENTS, EARLIER_DOCUMENTS
from benchmarks.suites.tuning import fresh

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "results.md"
TEXT = """# Results

Every table comes from a file in `benchmarks/results`, which the command above it writes; `python -m
docs.tools.results` writes this page.

## Compression

Right answers to 25 hand-written questions on each document of about 500 tokens, SmolLM2-135M.
Documents and questions were fixed before anything was measured. "8x" means an eighth of the prompt's memory.
`recall` is attangent's method; "its quiz claims" is what `compress` says about itself, from questions that it
makes of the text ([how-to](compress.md)).

    python -m benchmarks.suites.compression.documents

{compression}

Twelve earlier documents, on which `recall` was measured again with today's settings; a number in brackets
says on how many of them a method was measured:

{earlier_compression}

Older groups of prompts. Rows of `recall` on handbooks, and all of Gemma, are of today's settings; others are
older. "64 of 120" means that the full prompt answers 64 of 120 questions; a dash was not measured.
SmolLM2-135M except for the last group.

    python -m benchmarks.suites.compression.bench_compress --threads 1
    python -m benchmarks.suites.compression.second_model GEMMA_FOLDER

{older_compression}

## Serving

Prompts of several tenants in one engine: the full prompts with the engine's own prefix cache, compressed
prompts, and no prompt ([how-to](engines.md)).

    python -m benchmarks.suites.serving.engines

{serving}

## Tuning

Accuracy on 500 test rows of five public tasks on which nothing was chosen; MiniLM; rows to train on in
brackets ([how-to](tuning.md)). A dash was not run.

    python -m benchmarks.suites.tuning.fresh FOLDER OUT

{tuning}

## Forecasting

Six sets of different kinds, then nine competition sets ([more tables](competitions.md),
[how-to](forecast.md)).

    python -m benchmarks.suites.forecast.kinds --kept FOLDER
    python -m benchmarks.suites.forecast.competitions --rivals PYTHON --kept FOLDER

{kinds}

{competitions}

## Stages

How often `attangent stages` is right on 200 curves of 400 readings per case, and change points of the mean
(ruptures, BIC penalty) ([how-to](stages.md)). Thresholds come from other seeds.

    python -m benchmarks.suites.stages.detector

{stages}

## Speed and memory

Each line compares with a named peer in the same run; below 1 is less than the peer ([all
tables](benchmarks.md)).

    python -m benchmarks

{speed}
"""


def rows_of(name: str) -> Any:
    return json.loads((RESULTS / name).read_text())


def markdown(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def compression(names: Sequence[str]) -> str:
    return documents.table([row for row in rows_of("compress_documents.json") if row["document"] in names])


def older_compression() -> str:
    newer = ("new documents", "earlier documents")
    return means.table({group: rows for group, rows in means.groups().items() if group not in newer})


def serving() -> str:
    cells = [
        (
            f"{row['engine']}, {row['way']}, {row['clients']} clients",
            f"{row['tokens_per_second']:.0f}",
            f"{row['first_token_median']:.2f} s",
            f"{row['peak_kv_bytes'] / 2**20:.0f} MiB",
            f"{row['right']} of {row['asked']}",
        )
        for row in rows_of("engines.json")["rows"]
    ]
    header = ("engine and prompt", "tokens/s", "first token", "KV memory", "right answers")
    return markdown(header, cells)


def tuning() -> str:
    lines = (RESULTS / "tuning_fresh.jsonl").read_text().splitlines()
    table, *gaps = fresh.table([json.loads(line) for line in lines]).split("\ntune - ")
    return "\n\n".join([table, "\n".join(f"- tune less {gap}" for gap in gaps)])


def shares(row: dict[str, Any], *keys: str) -> list[str]:
    return [f"{row[key]:.1%}" for key in keys]


def stages() -> str:
    """Return how often a stage is reported where none is, and how often all are found."""
    rows = {(row["method"], row["case"]): row for row in rows_of("detector_results.json")}
    cases = [case for method, case in rows if method == "find_stages"]
    flat = [case for case in cases if "false" in rows["find_stages", case]]
    methods = ("find_stages", "ruptures")
    false = [
        (case, *(share for method in methods for share in shares(rows[method, case], "false")))
        for case in flat
    ]
    right = [
        (
            case,
            *shares(rows["find_stages", case], "right", "near", "held"),
            *shares(rows["ruptures", case], "right"),
        )
        for case in cases
        if case not in flat
    ]
    header = (
        "curves with stages",
        "all found",
        "onset within 10 steps",
        "interval holds it",
        "ruptures: all found",
    )
    return "\n\n".join(
        [markdown(("curves without a stage", "false onsets", "ruptures"), false), markdown(header, right)]
    )


def first_tables(name: str, count: int) -> str:
    """Return the first tables of a Markdown file with the sentence above each."""
    blocks = (RESULTS / name).read_text().strip().split("\n\n")
    return "\n\n".join(blocks[: 2 * count])


def speed() -> str:
    goals = rows_of("results.json")["goals"]
    cells = [
        (f"{goal['name']}: {goal['goal']}", f"{goal['at_most']:.3g}", f"{goal['measured']:.3g}")
        for goal in goals
    ]
    return markdown(("ratio", "goal: at most", "measured"), cells)


def page() -> str:
    return TEXT.format(
        compression=compression(DOCUMENTS),
        earlier_compression=compression(EARLIER_DOCUMENTS),
        older_compression=older_compression(),
        serving=serving(),
        tuning=tuning(),
        kinds=first_tables("kinds.md", 2),
        competitions=first_tables("competitions.md", 1),
        stages=stages(),
        speed=speed(),
    )


if __name__ == "__main__":
    PAGE.write_text(page())
