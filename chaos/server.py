"""A server under fire: good requests stay right among broken, oversized, slow and abandoned ones.

    python -m chaos server --out FOLDER

32 clients send 1,000 requests to `attangent serve` with a tiny random model. Then the server is killed during
a compression and started again.
"""

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil

CLIENTS = 32
REQUESTS = 1000
ALLOWED_GROWTH = 1.05
KINDS = ("good", "stream", "left", "large", "json", "slow", "unknown")
DOCUMENT = "The keeper of the tower is old. The light of the tower is green. The boat is called Mary. " * 4


def run(scratch: Path, seed: int) -> dict[str, list[str]]:
    """What went wrong, by what was done: nothing if all went well."""
    from tests.serving.conftest import save_letters

    options = argparse.Namespace(out=scratch, seed=seed, requests=REQUESTS)
    model = save_letters(scratch / "model")
    return {
        f"{REQUESTS:,} requests from {CLIENTS} clients": under_fire(model, options),
        "killed while compressing, then restarted": killed(model, options),
    }


def started(model: Path, store: Path) -> tuple[Any, str]:
    """A server and its address."""
    command = [sys.executable, "-m", "attangent", "serve", "--port", "0", "--json", "--model", str(model)]
    process = subprocess.Popen([*command, "--store", str(store)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["url"]


def under_fire(model: Path, options: argparse.Namespace) -> list[str]:
    process, url = started(model, options.out / "store")
    wanted = [answer(url, number) for number in range(8)]
    fire(url, wanted, options.seed + 1, options.requests // 4)  # memory is compared after a warm-up
    before = psutil.Process(process.pid).memory_info().rss
    outcomes = fire(url, wanted, options.seed, options.requests)
    wait_until_idle(url)
    after = psutil.Process(process.pid).memory_info().rss
    process.send_signal(signal.SIGTERM)
    code = process.wait(60)
    print(f"{sum(outcomes.values())} requests from {CLIENTS} clients: {dict(sorted(outcomes.items()))}")
    print(f"memory after 1/4 of as many and after all: {before / 2**20:.1f} and {after / 2**20:.1f} MiB")
    problems = [
        f"{count} times {kind}" for kind, count in outcomes.items() if not kind.endswith(": as promised")
    ]
    problems += [f"memory grew by {after / before - 1:.1%}"] * (after > ALLOWED_GROWTH * before)
    return problems + [f"exit code {code}"] * (code != 143)


def fire(url: str, wanted: list[str], seed: int, count: int) -> Counter[str]:
    """Outcomes of this many requests of random kinds."""
    draw = random.Random(seed)
    kinds = [draw.choice(KINDS) for _ in range(count)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        jobs = [pool.submit(outcome, url, kind, number, wanted) for number, kind in enumerate(kinds)]
        return Counter(f"{kind}: {job.result()}" for kind, job in zip(kinds, jobs, strict=True))


def outcome(url: str, kind: str, number: int, wanted: list[str]) -> str:
    try:
        return "as promised" if attempt(url, kind, number, wanted) else "another answer"
    except Exception as error:
        return type(error).__name__


def attempt(url: str, kind: str, number: int, wanted: list[str]) -> bool:
    number %= len(wanted)
    if kind == "good":
        return answer(url, number) == wanted[number]
    if kind == "stream":
        return streamed(url, number) == wanted[number]
    if kind == "left":
        return leave(url, number)
    if kind == "slow":
        return send_slowly(url)
    content = {
        "large": b"x" * (5 << 20),
        "json": b'{"model": ',
        "unknown": b'{"model": "pink", "prompt": "a"}',
    }[kind]
    status = {"large": 413, "json": 400, "unknown": 404}[kind]
    try:
        response = httpx.post(f"{url}v1/completions", content=content, timeout=120, trust_env=False)
    except httpx.WriteError:
        return kind == "large"  # the server stops to read a body that is too large
    return response.status_code == status and "message" in response.json()["error"]


def request(number: int) -> dict[str, Any]:
    return {"model": "model", "prompt": f"question {number}", "temperature": 0, "max_tokens": 8 + number}


def answer(url: str, number: int) -> str:
    response = httpx.post(f"{url}v1/completions", json=request(number), timeout=300, trust_env=False)
    return response.raise_for_status().json()["choices"][0]["text"]


def streamed(url: str, number: int) -> str:
    body = {**request(number), "stream": True}
    response = httpx.post(f"{url}v1/completions", json=body, timeout=300, trust_env=False)
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert lines.pop() == "[DONE]"
    return "".join(json.loads(line)["choices"][0]["text"] for line in lines)


def connect(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").strip("/").split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def leave(url: str, number: int) -> bool:
    """Ask for a long answer and close the connection."""
    body = json.dumps({**request(number), "max_tokens": 900, "stream": bool(number % 2)}).encode()
    with connect(url) as client:
        head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        time.sleep(0.02 * (number % 5))
    return True


def send_slowly(url: str) -> bool:
    """Send half a request, letter by letter, and give up."""
    with connect(url) as client:
        for letter in b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{":
            client.sendall(bytes([letter]))
        time.sleep(0.2)
    return True


def wait_until_idle(url: str) -> None:
    end = time.monotonic() + 120
    while "attangent_running 0\n" not in httpx.get(f"{url}metrics", trust_env=False).text:
        assert time.monotonic() < end, "rows of clients that left are still running"
        time.sleep(0.2)


def killed(model: Path, options: argparse.Namespace) -> list[str]:
    """Kill the server during a compression; started again, it resumes and answers."""
    store = options.out / "killed"
    process, url = started(model, store)
    body = {"text": DOCUMENT, "keep": 0, "size": 8, "name": "tower"}
    made = httpx.post(f"{url}v1/prefixes", json=body, trust_env=False).json()
    work = store / made["id"] / "prefix" / ".work"
    end = time.monotonic() + 300
    while not list(work.rglob("*.safetensors")):
        assert time.monotonic() < end, "the compression did not start"
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(60)
    process, url = started(model, store)
    try:
        while (status := httpx.get(f"{url}v1/prefixes/tower", trust_env=False).json()["status"]) != "ready":
            if status == "failed" or time.monotonic() > end + 300:
                return [f"a compression killed with its server is {status}"]
            time.sleep(0.2)
        ask = {"model": "tower", "prompt": "who?", "max_tokens": 4}
        code = httpx.post(f"{url}v1/completions", json=ask, trust_env=False).status_code
        print(f"killed during a compression: resumed, and the prefix answers with {code}")
        return [] if code == 200 else [f"the prefix answers with {code}"]
    finally:
        process.terminate()
        process.wait(60)
