"""Rivals of compression: kvpress's presses, Attention Matching, peft's CARTRIDGE, a summary, a cut prompt."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from attangent.attention import RaggedState
from attangent.compression.asking.answers import continuations
from attangent.compression.capture import prefill, whole_prompt
from attangent.compression.compressor import Compressor
from attangent.compression.distill import Distillation, distill_states
from attangent.compression.fit import fit_states
from attangent.compression.prompt import tokens_of
from benchmarks.child import Unavailable

ENVIRONMENT = Path(__file__).parent / ".envs" / "kvpress"
KVPRESS = "kvpress==0.5.5"
PRESSES = ("KVzip", "SnapKV", "ExpectedAttention", "AdaKV", "TOVA")
CARTRIDGE_STEPS = 24
_SUMMARY = "Summarise the text above. Keep every name and number."


@dataclass(frozen=True)
class Entry:
    """What one rival made of a prompt: states by layer, or a text in its place; processor seconds.

    seconds: None where the work was done before this run.
    """

    method: str
    size: int
    seconds: float | None
    states: dict[str, Any] | None = None
    text: str | None = None


def timed(method: str, size: int, make: Callable[[], dict[str, Any]]) -> Entry:
    started = time.process_time()
    states = make()
    return Entry(method, size, time.process_time() - started, states)


def attention_matching(job: Compressor, size: int) -> Entry:
    """arXiv 2602.16284 as published, with equal sizes: tokens by orthogonal matching pursuit, masses by
    non-negative least squares, values by least squares, layer by layer on a repetition of the prompt."""
    _ = job.cache
    return timed(
        "Attention Matching",
        size,
        lambda: fit_states(job.model, job.cache, job.repeated, size, "anchors"),
    )


def cut(job: Compressor, size: int) -> Entry:
    """The first tokens of the prompt as they are."""
    return timed("prompt cut", size, lambda: first_tokens(job, size))


def first_tokens(job: Compressor, size: int) -> dict[str, Any]:
    return {
        name: RaggedState.of(
            [k[:size] for k in keys], [v[:size] for v in values], [torch.ones(size) for _ in keys]
        )
        for name, (keys, values) in job.cache.layers.items()
    }


def cartridge(job: Compressor, size: int) -> Entry:
    """peft's CARTRIDGE: the cache of the first tokens, trained on what our distillation is trained on."""
    plan, start = Distillation(CARTRIDGE_STEPS), first_tokens(job, size)
    text = job.distillation_text
    return timed(
        f"CARTRIDGE, {CARTRIDGE_STEPS} steps",
        size,
        lambda: distill_states(job.model, job.cache, start, text, plan),
    )


def summary(job: Compressor, size: int) -> Entry:
    """What the model itself writes when asked for a summary of this length."""
    started = time.process_time()
    asked = job.reader.question(job.tokenizer, _SUMMARY)
    (text,) = continuations(
        job.model, job.tokenizer, [asked], job.cache.length, whole_prompt(job.cache), size
    )
    return Entry("summary", size, time.process_time() - started, text=text)


def summarised(job: Compressor, text: str) -> Any:
    """The cache of a summary as the system message."""
    chat = [{"role": "system", "content": text}]
    ids = tokens_of(job.tokenizer, job.tokenizer.apply_chat_template(chat, tokenize=False))
    return prefill(job.model, ids)


def kvpress_python() -> Path:
    """The interpreter of an environment with kvpress, made where it is missing."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.is_file():
        version = f"torch=={torch.__version__}"
        commands = (
            [sys.executable, "-m", "venv", str(ENVIRONMENT)],
            [str(python), "-m", "pip", "install", "--quiet", KVPRESS, version],
        )
        try:
            for command in commands:
                subprocess.run(command, check=True, capture_output=True)
        except (subprocess.CalledProcessError, OSError) as error:
            raise Unavailable(f"{KVPRESS} could not be installed: {error}") from None
    return python


def kvpressed(job: Compressor, press: str, size: int, folder: Path) -> Entry:
    """What kvpress leaves of the prompt's cache, as states of our own: the same tokens in the same places."""
    prefix = tokens_of(job.tokenizer, "<|im_start|>system\n") if job.reader.roles else []
    order = {"press": press, "size": size, "ids": job.ids.tolist(), "prefix": len(prefix)}
    python, child = kvpress_python(), Path(__file__).with_name("compress_kvpress.py")
    with tempfile.TemporaryDirectory() as place:
        file, out = Path(place) / "order.json", Path(place) / "out.safetensors"
        file.write_text(json.dumps(order))
        command = [str(part) for part in (python, child, folder, file, out)]
        ran = subprocess.run(command, check=False, capture_output=True, text=True)
        if ran.returncode:
            raise Unavailable(f"{press} of {KVPRESS} failed: {ran.stderr.strip().splitlines()[-1]}")
        return _read(job, press, size, out)


def _read(job: Compressor, press: str, size: int, path: Path) -> Entry:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        seconds = float(file.metadata()["seconds"])
        states = {}
        for place, name in enumerate(job.cache.layers):
            keys, values, kept = (file.get_tensor(f"{place}.{part}") for part in ("keys", "values", "kept"))
            heads = [(k[own], v[own]) for k, v, own in zip(keys, values, kept, strict=True)]
            masses = [torch.ones(len(k)) for k, _ in heads]
            states[name] = RaggedState.of([k for k, _ in heads], [v for _, v in heads], masses)
    return Entry(press, size, seconds, states)
