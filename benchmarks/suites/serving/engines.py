"""Full prompts with the engine's own prefix cache, compressed prefixes and no prompt, with clients at once.

Run `ATTANGENT_VLLM_PYTHON=PYTHON python -m benchmarks.suites.serving.engines`; `--help` lists the options.

The prompts have 500 to 4,000 tokens and are compressed by `plain` to the sizes below. Up to twelve questions
are asked on each. A prompt serves several tenants: their full prompts begin with the tenant's name, so that
none of their blocks is shared. Requests of the tenants alternate. The prefix cache is warm in all three ways,
so what is compared is memory and the cost of decoding, not the reading of the prompt. KV memory is that of
running requests; for `attangent serve` the prompts that it keeps for later requests are included. Rows go to
benchmarks/results/engines.json with the machine's load.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import attangent
from attangent._core.files import read_json, real_folder, write_json
from attangent.adapters.files.format import CONFIG as ADAPTER_CONFIG
from attangent.compression import CompressionRequest
from attangent.compression.pipeline import CompressionRun
from attangent.compression.prompt import BareReader, read_prompt
from attangent.serving.exports.engine_prefix import EnginePrefix, write_prefix
from attangent.serving.exports.plain import plain_prefix
from attangent.serving.scheduler import BASE
from attangent.serving.server import address_of
from benchmarks.harness import folders
from benchmarks.suites.compression.bench_compress import smollm2, smollm2_folder
from benchmarks.suites.compression.prompts import PROMPTS
from benchmarks.suites.serving.clients import chat, start

RESULTS = folders.RESULTS / "engines.json"
WORK = folders.ENVIRONMENTS / "engines"
SIZES = {
    "needles": 128,
    "needles-second": 128,
    "needles-2k": 256,
    "needles-4k": 512,
    # Shorter prompts, on which choices were made: they show how the gain grows with the length.
    "valley": 256,
    "ferry": 96,
}
ASKED = 12
TOKENS = 24
_CACHE_GIGABYTES = "2"
Requests = dict[str, list[list[int]]]


@dataclass(frozen=True)
class Tenant:
    """A tenant with a prompt of that name.

    Attributes:
        name: Name of the tenant.
        prompt: Name of the prompt.
    """

    name: str
    prompt: str

    @property
    def folder(self) -> Path:
        """Folder of the tenant's export."""
        return WORK / self.prompt / self.name

    def content(self) -> list[dict[str, str]]:
        """The full prompt, which begins with the tenant's name."""
        messages: Any = PROMPTS[self.prompt]().content
        first, *rest = (dict(message) for message in messages)
        return [first | {"content": f"{self.name}. {first['content']}"}, *rest]


def compress_once(model: Any, tokenizer: Any, name: str) -> Path:
    """The folder of a compressed prompt, without its questions: the benchmark has its own."""
    folder = real_folder(WORK / name)
    if not (folder / ADAPTER_CONFIG).is_file():
        content = PROMPTS[name]().content
        request = CompressionRequest(content, keep=0, size=SIZES[name], method="plain")
        run = CompressionRun(model, tokenizer, request, folder=folder)
        run.fit(SIZES[name], "plain").save(model, folder)
    return folder


def export(model: Any, tokenizer: Any, tenant: Tenant) -> EnginePrefix:
    """Write the tenant's prefix for vLLM."""
    folder = compress_once(model, tokenizer, tenant.prompt)
    prefix = plain_prefix(model, tokenizer, folder, tenant.name)
    write_prefix(prefix, tenant.folder)
    return prefix


def requests_of(tokenizer: Any, tenant: Tenant, prefix: EnginePrefix, count: int = ASKED) -> Requests:
    """The tokens of the first questions in the three ways."""
    ids, reader = read_prompt(tokenizer, tenant.content())
    asked = PROMPTS[tenant.prompt]().questions[:count]
    questions = [reader.question(tokenizer, question).tolist() for question, _ in asked]
    bare = [BareReader().question(tokenizer, question).tolist() for question, _ in asked]
    return {
        "full": [[*ids.tolist(), *question] for question in questions],
        "compressed": [[*prefix.marker.ids, *question] for question in questions],
        "none": bare,
    }


def alternating(tenants: Sequence[Mapping[str, list[Any]]]) -> dict[str, list[Any]]:
    """The requests of all tenants in turn, by way."""
    return {
        way: [request for turn in zip(*(each[way] for each in tenants), strict=True) for request in turn]
        for way in tenants[0]
    }


def run_child(job: Mapping[str, Any]) -> dict[str, Any]:
    """Run a job in vLLM's interpreter."""
    python = os.environ.get("ATTANGENT_VLLM_PYTHON")
    if not python:
        raise SystemExit("set ATTANGENT_VLLM_PYTHON to an interpreter that has vLLM")
    library = Path(python).parents[1] / "lib" / "libiomp5.so"
    environment = os.environ | {
        "PYTHONPATH": str(Path(attangent.__file__).parents[1]),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": _CACHE_GIGABYTES,
        "HF_HUB_OFFLINE": "1",
        "LD_PRELOAD": str(library) if library.is_file() else "",
    }
    child = Path(__file__).with_name("vllm_child.py")
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("job.json", "result.json")]
        paths[0].write_text(json.dumps(job))
        subprocess.run([python, str(child), *map(str, paths)], env=environment, check=True)
        return json.loads(paths[1].read_text())


def in_vllm(tenants: Sequence[Tenant], clients: int, count: int) -> dict[str, dict[str, Any]]:
    """Results of vLLM by way."""
    model, tokenizer = smollm2()
    requests = [requests_of(tokenizer, tenant, export(model, tokenizer, tenant), count) for tenant in tenants]
    job = {
        "model": str(smollm2_folder()),
        "prefixes": [str(tenant.folder) for tenant in tenants],
        "requests": alternating(requests),
        "clients": clients,
        "tenants": len(tenants),
        "tokens": TOKENS,
    }
    results = run_child(job)
    for result in results.values():
        answers = result.pop("answers")
        result["texts"] = [tokenizer.decode(ids) for ids in answers]
        result["tokens"] = sum(map(len, answers))
    return results


def bodies_of(tenant: Tenant, base: str, count: int) -> dict[str, list[dict[str, Any]]]:
    """Chat requests of the first questions in the three ways."""
    asked = [[{"role": "user", "content": text}] for text, _ in PROMPTS[tenant.prompt]().questions[:count]]
    return {
        "full": [{"model": base, "messages": [*tenant.content(), *question]} for question in asked],
        "compressed": [{"model": tenant.name, "messages": question} for question in asked],
        "none": [{"model": base, "messages": question} for question in asked],
    }


def in_attangent(tenants: Sequence[Tenant], clients: int, count: int) -> dict[str, dict[str, Any]]:
    """Results of `attangent serve` by way; it runs in this process."""
    model, tokenizer = smollm2()
    prefixes = {tenant.name: compress_once(model, tokenizer, tenant.prompt) for tenant in tenants}
    with tempfile.TemporaryDirectory() as scratch:
        server, listener = start(str(smollm2_folder()), prefixes, Path(scratch))
        service = server.config.app.state.service
        results = {}
        base = service.catalog.base
        for way, bodies in alternating([bodies_of(tenant, base, count) for tenant in tenants]).items():
            batch = service.engine.batches[BASE]
            states = sum(batch.prefix_bytes(name) for name in prefixes) if way == "compressed" else 0
            for body in bodies[: len(tenants)]:
                chat(address_of(listener), body | {"max_tokens": 1})
            results[way] = answer_all(service.engine, address_of(listener), bodies, clients, states)
            service.engine.call(lambda batch=batch: batch.reuse.forget(None)).result()
        server.should_exit = True
    return results


def answer_all(
    engine: Any, url: str, bodies: Sequence[dict[str, Any]], clients: int, states: int
) -> dict[str, Any]:
    """Answer all requests, at most `clients` at once, and watch the memory of keys and values."""
    started = time.perf_counter()
    processor = time.process_time()
    peak = 0
    with ThreadPoolExecutor(clients) as pool:
        jobs = [pool.submit(chat, url, body | {"max_tokens": TOKENS}) for body in bodies]
        while not all(job.done() for job in jobs):
            peak = max(peak, engine.kv_bytes)
            time.sleep(0.02)
    return {
        "seconds": time.perf_counter() - started,
        "processor_seconds": time.process_time() - processor,
        "peak_bytes": peak + states,
        "texts": [job.result()["text"] for job in jobs],
        "tokens": sum(job.result()["tokens"] for job in jobs),
        "first_token": [job.result()["first"] for job in jobs],
    }


def row(way: str, result: Mapping[str, Any], expected: Sequence[str]) -> dict[str, Any]:
    """Figures of one way."""
    texts = result["texts"]
    right = sum(re.search(words, text) is not None for words, text in zip(expected, texts, strict=True))
    waits = sorted(result["first_token"])
    return {
        "way": way,
        # Answers differ in length between the ways, so tokens are compared and not requests.
        "tokens_per_second": result["tokens"] / result["seconds"],
        "tokens_per_processor_second": result["tokens"] / result["processor_seconds"],
        "first_token_median": statistics.median(waits),
        "first_token_p95": waits[int(0.95 * (len(waits) - 1))],
        "peak_kv_bytes": result["peak_bytes"],
        "right": right,
        "asked": len(texts),
    }


def measure(engine: str, tenants: Sequence[Tenant], clients: int, count: int) -> list[dict[str, Any]]:
    """All ways for these tenants."""
    before = os.getloadavg()[0]
    run = {"vllm": in_vllm, "attangent": in_attangent}[engine]
    results = run(tenants, clients, count)
    questions = [PROMPTS[tenant.prompt]().questions[:count] for tenant in tenants]
    expected = [words for turn in zip(*questions, strict=True) for _, words in turn]
    names = [tenant.name for tenant in tenants]
    about = {"engine": engine, "clients": clients, "tenants": names, "load": [before, os.getloadavg()[0]]}
    return [{**row(way, result, expected), **about} for way, result in results.items()]


def stored_rows() -> list[dict[str, Any]]:
    """Rows of earlier runs."""
    return read_json(RESULTS)["rows"] if RESULTS.is_file() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", nargs="+", default=["vllm", "attangent"], choices=["vllm", "attangent"])
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--prompts", nargs="+", default=["needles", "needles-2k"], choices=list(SIZES))
    parser.add_argument("--tenants", type=int, default=2, help="tenants per prompt")
    parser.add_argument("--questions", type=int, default=ASKED, help="questions per tenant")
    options = parser.parse_args()
    tenants = [
        Tenant(f"{prompt}-{number}", prompt)
        for number in range(options.tenants)
        for prompt in options.prompts
    ]
    rows = []
    others = [row for row in stored_rows() if row.get("engine") not in options.engine]
    for engine in options.engine:
        rows += measure(engine, tenants, options.clients, options.questions)
        write_json(RESULTS, {"rows": [*others, *rows]})
    for each in rows:
        print(
            f"{each['engine']:9} {each['way']:10} {each['tokens_per_second']:.1f} tokens/s, first token "
            f"{each['first_token_median']:.2f} s (p95 {each['first_token_p95']:.2f}), peak KV "
            f"{each['peak_kv_bytes'] / 2**20:.0f} MiB, right {each['right']} of {each['asked']}"
        )
    print(f"load {rows[0]['load'][0]:.1f} to {rows[-1]['load'][1]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
