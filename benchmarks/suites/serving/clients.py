"""Throughput of `attangent serve`: 16 clients with four prefixes against one client.

    python -m benchmarks.suites.serving.clients --model FOLDER

The server runs in this process, and clients are threads that call its HTTP address. Prefixes are random
states of 64 virtual tokens per head: their content does not matter for speed. All requests ask for the same
number of tokens.
"""

import argparse
import json
import socket
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from attangent.adapters import attention_layers
from attangent.adapters.hub import load_causal_lm
from attangent.compression import CompressedPrompt
from attangent.compression.prompt import fingerprint
from attangent.serving import ServeSettings, build_service, create_app
from attangent.serving.server import address_of, open_socket
from benchmarks.suites.attention.bench_rows import TOKENS, drawn_state, uneven_sizes

QUESTION = "Write a long letter to a friend about the garden in spring."
OFFSET = 1000
"""Tokens of the document that a prefix stands for."""


def prefix_folders(model: str, count: int, folder: Path) -> dict[str, Path]:
    """Random prefixes of the model, saved as `compress` saves them."""
    network, tokenizer = load_causal_lm(model)
    folders = {}
    for seed in range(count):
        states: dict[str, Any] = {
            layer.name: drawn_state(uneven_sizes(layer.kv_heads), layer, seed)
            for layer in attention_layers(network)
        }
        prompt = CompressedPrompt(states, OFFSET, TOKENS, "recall", ("system",), fingerprint(tokenizer))
        folders[f"tenant-{seed}"] = prompt.save(network, folder / f"tenant-{seed}")
    return folders


def start(model: str, folders: dict[str, Path], store: Path) -> tuple[Any, socket.socket]:
    """A running server and its socket."""
    import uvicorn

    settings = ServeSettings(port=0)
    listener = open_socket(settings)
    service = build_service(model, *load_causal_lm(model), settings, store, folders)
    server = uvicorn.Server(uvicorn.Config(create_app(service), log_level="error"))
    threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    return server, listener


def ask(url: str, model: str, tokens: int) -> dict[str, Any]:
    """Ask for this many tokens of any text."""
    body = {"model": model, "messages": [{"role": "user", "content": QUESTION}], "max_tokens": tokens}
    return chat(url, body | {"temperature": 1, "seed": 1})


def chat(url: str, body: dict[str, Any]) -> dict[str, Any]:
    """One request, streamed: its text and tokens, and the seconds to the first one and to the end."""
    import httpx

    body = {"temperature": 0, **body, "stream": True, "stream_options": {"include_usage": True}}
    started = time.perf_counter()
    first = None
    text = ""
    usage: dict[str, Any] = {}
    address = f"{url}v1/chat/completions"
    with httpx.stream("POST", address, json=body, timeout=600, trust_env=False) as response:
        for line in response.iter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            usage = chunk.get("usage") or usage
            text += (chunk["choices"][0]["delta"].get("content") or "") if chunk["choices"] else ""
            if first is None and text:
                first = time.perf_counter() - started
    seconds = time.perf_counter() - started
    return {
        "text": text,
        "tokens": usage["completion_tokens"],
        "first": seconds if first is None else first,
        "seconds": seconds,
    }


def measure(url: str, models: list[str], clients: int, each: int, tokens: int) -> dict[str, float]:
    """Tokens per second of clients that ask one request after the other, and times to the first token."""
    started = time.perf_counter()
    processor = time.process_time()
    with ThreadPoolExecutor(clients) as pool:
        jobs = [
            pool.submit(ask, url, models[number % len(models)], tokens) for number in range(clients * each)
        ]
        answers = [job.result() for job in jobs]
    seconds = time.perf_counter() - started
    processor = time.process_time() - processor
    written = sum(answer["tokens"] for answer in answers)
    firsts = sorted(answer["first"] for answer in answers)
    return {
        "clients": clients,
        "requests": len(answers),
        "tokens": written,
        "tokens per second": written / seconds,
        "tokens per processor second": written / processor,
        "first token, median s": statistics.median(firsts),
        "first token, p95 s": firsts[min(len(firsts) - 1, int(0.95 * len(firsts)))],
        "slowest request, s": max(answer["seconds"] for answer in answers),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--prefixes", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=64, help="of every answer")
    parser.add_argument("--each", type=int, default=2, help="requests per client")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folders = prefix_folders(options.model, options.prefixes, Path(scratch))
        server, listener = start(options.model, folders, Path(scratch) / "store")
        url = address_of(listener)
        names = list(folders)
        measure(url, names, 1, 1, 4)  # warm-up
        one = measure(url, names, 1, options.each, options.tokens)
        many = measure(url, names, options.clients, options.each, options.tokens)
        server.should_exit = True
    for figures in (one, many):
        print(json.dumps({name: round(value, 3) for name, value in figures.items()}))
    for unit in ("tokens per second", "tokens per processor second"):
        print(f"ratio of {unit}: {many[unit] / one[unit]:.2f} (bar 4)")


if __name__ == "__main__":
    main()
