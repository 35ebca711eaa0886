"""Time and memory of very long prompts.

`python -m benchmarks.suites.compression.long` compresses prompts of 4k to 32k tokens piece by piece on a
small random Llama, each in a process of its own. `--real 6000` compresses that many tokens of invented
handbooks at once in SmolLM2-135M, to a sixteenth. Seconds are those of the processor, on one thread.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import torch

from attangent import compress
from benchmarks.suites.compression.bench_compress import smollm2

LENGTHS = (4096, 8192, 16384, 32768)
CONTEXT = 2048
SIZE = 64
TIMES = 16
_TEXTS = Path(__file__).with_name("texts")
_WORDS = ["river", "stone", "lamp", "winter", "garden", "seven", "mayor", "train", "silver", "bread"]


class Letters:
    """One token for each letter."""

    chat_template, eos_token_id = None, None

    def __len__(self) -> int:
        return 128

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) % 128 for letter in text]}

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        return "".join(map(chr, ids))

    def get_vocab(self) -> dict[str, int]:
        return {chr(i): i for i in range(128)}


def small_model() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=128, max_position_embeddings=CONTEXT, **sizes)).eval()


def measured(length: int) -> dict[str, Any]:
    """Return the cost of one compression in this process, on the small model."""
    draw = Random(0)
    text = " ".join(draw.choice(_WORDS) for _ in range(length // 3))[:length]
    return _cost(small_model(), Letters(), text, SIZE) | {"tokens": length}


def measured_really(length: int) -> dict[str, Any]:
    """Return the cost of one compression in this process, in SmolLM2."""
    model, tokenizer = smollm2()
    texts = [path.read_text() for path in sorted(_TEXTS.rglob("*.*")) if path.suffix in (".txt", ".md")]
    ids = tokenizer("\n\n".join(texts), add_special_tokens=False)["input_ids"][:length]
    chat = [{"role": "system", "content": tokenizer.decode(ids)}]
    return _cost(model, tokenizer, chat, length // TIMES) | {"tokens": len(ids)}


def _cost(model: Any, tokenizer: Any, prompt: Any, size: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    compressed = compress(model, tokenizer, prompt, size)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "tokens per head": compressed.size,
        "seconds": round(time.process_time() - started, 1),
        "peak MB": round(peak / 1024),
        "MB before": round(before / 1024),
        "MB of states": round(compressed.number_of_bytes / 1e6, 2),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    parser.add_argument("--one", type=int, help="a length to measure in this process")
    parser.add_argument("--real", type=int, help="a length to measure in this process in SmolLM2")
    options = parser.parse_args(arguments)
    if options.one or options.real:
        print(json.dumps(measured(options.one) if options.one else measured_really(options.real)))
        return
    for length in options.lengths.split(","):
        command = [sys.executable, "-m", "benchmarks.suites.compression.long", "--one", length]
        ran = subprocess.run(command, check=True, capture_output=True, text=True)
        print(ran.stdout.strip(), flush=True)


if __name__ == "__main__":
    main()
