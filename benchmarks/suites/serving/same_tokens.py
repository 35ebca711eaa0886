"""Greedy answers of SmolLM2 with `plain` prompts, which must be the same everywhere.

    ATTANGENT_VLLM_PYTHON=PYTHON ATTANGENT_LLAMA_PYTHON=PYTHON ATTANGENT_LLAMA_GGUF=FILE \\
      python -m benchmarks.suites.serving.same_tokens

Two questions on each of four compressed prompts are answered by `generate`, by `attangent serve` over HTTP,
one by one and all eight at once, by vLLM and by llama.cpp. An engine whose variables are not set is left
out. The GGUF file must have the model's weights in float32. The exit code is 1 if an answer differs.
"""

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from attangent._core.files import write_json
from attangent.adapters import detach
from attangent.compression import CompressedPrompt, CompressionRequest
from attangent.compression.pipeline import CompressionRun
from attangent.compression.session import generate_text
from attangent.serving.exports.engine_prefix import write_prefix
from attangent.serving.exports.entry import EngineServer, ExportRequest, LlamaServer, export_prompt
from attangent.serving.exports.plain import plain_prefix
from attangent.serving.server import address_of
from benchmarks.suites.compression.bench_compress import smollm2, smollm2_folder
from benchmarks.suites.compression.prompts import PROMPTS
from benchmarks.suites.serving.clients import start
from benchmarks.suites.serving.engines import WORK, run_child
from benchmarks.suites.serving.llama import is_there, llama_server

NAMES = ("theatre", "railway", "orchard", "observatory")
PARAGRAPHS = 2
SIZE = 64
TOKENS = 24
Asked = Sequence[tuple[str, str]]
"""Names of prompts with a question."""


def start_of(name: str) -> str:
    """The first paragraphs of a prompt."""
    message = PROMPTS[name]().content[0]
    assert not isinstance(message, str)
    return "\n\n".join(message["content"].split("\n\n")[:PARAGRAPHS])


def compressed(model: Any, tokenizer: Any, folder: Path) -> dict[str, CompressedPrompt]:
    """The compressed prompts by name, saved below the folder."""
    prompts = {}
    for name in NAMES:
        request = CompressionRequest([{"role": "system", "content": start_of(name)}], keep=0, size=SIZE)
        run = CompressionRun(model, tokenizer, request, folder=WORK / "same-tokens" / name)
        prompts[name] = run.fit(SIZE, "plain")
        prompts[name].save(model, folder / name)
        write_json(folder / name / "report.json", {"own": []})  # no questions of the prompt's own
    return prompts


def generated(model: Any, tokenizer: Any, prompts: Mapping[str, CompressedPrompt], asked: Asked) -> list[str]:
    """The answers of `attangent generate`."""
    answers = []
    for name, question in asked:
        prompts[name].attach(model)
        ids = prompts[name].reader.question(tokenizer, question)
        answers.append(generate_text(model, tokenizer, ids, TOKENS))
        detach(model)
    return answers


def served(folder: Path, asked: Asked) -> dict[str, list[str]]:
    """The answers of `attangent serve`, alone and in one batch."""
    server, listener = start(str(smollm2_folder()), {name: folder / name for name in NAMES}, folder / "store")
    engine = EngineServer(address_of(listener))

    def ask(case: tuple[str, str]) -> str:
        body = {"model": case[0], "messages": [{"role": "user", "content": case[1]}]}
        answer = engine.call("/v1/chat/completions", body | {"temperature": 0, "max_tokens": TOKENS})
        return answer["choices"][0]["message"]["content"].strip()

    alone = [ask(case) for case in asked]
    with ThreadPoolExecutor(len(asked)) as pool:
        together = list(pool.map(ask, asked))
    server.should_exit = True
    return {"server": alone, f"server, {len(asked)} at once": together}


def in_vllm(
    model: Any, tokenizer: Any, folder: Path, prompts: Mapping[str, CompressedPrompt], asked: Asked
) -> list[str]:
    """The answers of vLLM, which gets all requests at once."""
    prefixes = {name: plain_prefix(model, tokenizer, folder / name, name) for name in NAMES}
    for name, prefix in prefixes.items():
        write_prefix(prefix, folder / name / "vllm")
    requests = [
        [*prefixes[name].marker.ids, *prompts[name].reader.question(tokenizer, question).tolist()]
        for name, question in asked
    ]
    job = {
        "model": str(smollm2_folder()),
        "prefixes": [str(folder / name / "vllm") for name in NAMES],
        "requests": {"compressed": requests},
        "clients": len(asked),
        "tenants": len(NAMES),
        "tokens": TOKENS,
    }
    answers = run_child(job)["compressed"]["answers"]
    return [tokenizer.decode(ids, skip_special_tokens=True).strip() for ids in answers]


def in_llama_cpp(
    model: Any, tokenizer: Any, folder: Path, prompts: Mapping[str, CompressedPrompt], asked: Asked
) -> list[str]:
    """The answers of llama.cpp, whose one slot holds one prompt after the other."""
    slots = folder / "slots"
    prefixes = {}
    answers = []
    with llama_server(slots) as address:
        for name, question in asked:
            if name not in prefixes:
                request = ExportRequest(
                    folder / name, "llama.cpp", folder / name / "llama.cpp", name, address, slots
                )
                prefixes[name] = export_prompt(model, tokenizer, request).prefix
            ids = prompts[name].reader.question(tokenizer, question).tolist()
            answer = LlamaServer(address).read([*prefixes[name].marker.ids, *ids], TOKENS)
            assert answer["timings"]["cache_n"] >= SIZE, "the slot was not used"
            answers.append(answer["content"].strip())
    return answers


def main() -> None:
    model, tokenizer = smollm2()
    asked = [(name, question) for name in NAMES for question, _ in PROMPTS[name]().questions[:2]]
    differs = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        prompts = compressed(model, tokenizer, folder)
        expected = generated(model, tokenizer, prompts, asked)
        for (name, question), answer in zip(asked, expected, strict=True):
            print(f"{name}: {question} {answer!r}", flush=True)
        for way, texts in served(folder, asked).items():
            differs += compare(way, asked, texts, expected)
        if is_there():
            texts = in_llama_cpp(model, tokenizer, folder, prompts, asked)
            differs += compare("llama.cpp", asked, texts, expected)
        if os.environ.get("ATTANGENT_VLLM_PYTHON"):
            texts = in_vllm(model, tokenizer, folder, prompts, asked)
            differs += compare("vLLM", asked, texts, expected)
    sys.exit(int(differs > 0))


def compare(way: str, asked: Asked, texts: Sequence[str], expected: Sequence[str]) -> int:
    """Print how many answers are those of `generate`; return how many are not."""
    others = [
        (case, text) for case, text, wanted in zip(asked, texts, expected, strict=True) if text != wanted
    ]
    print(f"{way:20} {len(texts) - len(others)} of {len(texts)} the same as generate", flush=True)
    for (name, question), text in others:
        print(f"  {name}: {question} {text!r}", flush=True)
    return len(others)


if __name__ == "__main__":
    main()
