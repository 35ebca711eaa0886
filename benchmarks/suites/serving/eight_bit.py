"""Does a compressed prompt keep more answers in llama.cpp with 8-bit keys and values at equal bytes?

    ATTANGENT_LLAMA_PYTHON=PYTHON ATTANGENT_LLAMA_GGUF=FILE python -m benchmarks.suites.serving.eight_bit

A prompt is compressed by `plain` to 96 tokens stored in f16 and to 180 in q8_0, which take the same bytes:
q8_0 has a 16-bit scale per 32 numbers, so 8.5 bits each. 180 tokens in f16 show how much the 8 bits cost by
themselves. Every prefix is asked the questions of the prompt's quiz in the engine. The sizes and the prompt
were fixed before the run. Rows go to benchmarks/results/eight_bit.json.
"""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attangent._core.files import real_folder, write_json
from attangent.compression import CompressionRequest
from attangent.compression.pipeline import CompressionRun
from attangent.compression.quiz import facts_kept
from attangent.serving.exports.entry import ExportRequest, export_prompt
from benchmarks.harness import folders
from benchmarks.suites.compression.bench_compress import smollm2
from benchmarks.suites.compression.prompts import PROMPTS
from benchmarks.suites.serving.engines import WORK
from benchmarks.suites.serving.llama import llama_server

RESULTS = folders.RESULTS / "eight_bit.json"
PROMPT = "theatre"
BITS = {"F16": 16.0, "Q8_0": 8.5}
FORMS = (("F16", 96), ("Q8_0", 180), ("F16", 180))


def measure(run: CompressionRun, kind: str, size: int, folder: Path) -> dict[str, Any]:
    """The answers that a size keeps in the engine with this type of keys and values."""
    prompt = run.fit(size, "plain")
    prompt.save(run.model, folder)
    write_json(folder / "report.json", {"own": [{"asked": asdict(q)} for q in run.quiz.questions]})
    slots = folder / "slots"
    with llama_server(slots, kind) as address:
        request = ExportRequest(folder, "llama.cpp", folder / "llama.cpp", f"{kind}-{size}", address, slots)
        answers = export_prompt(run.model, run.tokenizer, request).answers
    assert answers is not None
    numbers = sum(tensor.numel() for layer in run.cache.layers.values() for tensor in layer) // len(run.ids)
    return {
        "type": kind,
        "size": size,
        "bytes": round(numbers * size * BITS[kind] / 8),
        **answers._asdict(),
        "kept_in_transformers": sum(facts_kept(run.answers(prompt)).values()),
    }


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    model, tokenizer = smollm2()
    work = real_folder(WORK / "eight-bit")
    request = CompressionRequest(PROMPTS[PROMPT]().content, keep=0, size=FORMS[0][1], method="plain")
    run = CompressionRun(model, tokenizer, request, folder=work)
    rows = []
    for kind, size in FORMS:
        row = measure(run, kind, size, real_folder(work / f"{kind}-{size}"))
        rows.append(row)
        print(
            f"{kind:5} {size:4} tokens {row['bytes'] / 2**20:.2f} MiB: keeps {row['kept']} of "
            f"{row['asked']} facts in llama.cpp, {row['kept_in_transformers']} in transformers (float32)",
            flush=True,
        )
    write_json(RESULTS, {"prompt": PROMPT, "prompt_tokens": len(run.ids), "rows": rows})


if __name__ == "__main__":
    main()
