"""Time and memory of very long prompts, compressed piece by piece on a small random Llama.

`python -m benchmarks.suites.compression.long` compresses prompts of 4k to 32k tokens, each in a process of
its own. Seconds are those of the processor.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from random import Random
from typing import Any

import torch

from attangent import compress

LENGTHS = (4096, 8192, 16384, 32768)
CONTEXT = 2048
SIZE = 64
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
    """One compression in this process."""
    torch.set_num_threads(1)
    model = small_model()
    draw = Random(0)
    text = " ".join(draw.choice(_WORDS) for _ in range(length // 3))[:length]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    found = compress(model, Letters(), text, SIZE)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "tokens": length,
        "tokens per head": found.size,
        "seconds": round(time.process_time() - started, 1),
        "peak MB": round(peak / 1024),
        "MB before": round(before / 1024),
        "MB of states": round(found.number_of_bytes / 1e6, 2),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    parser.add_argument("--one", type=int, help="a length to measure in this process")
    given = parser.parse_args(arguments)
    if given.one:
        print(json.dumps(measured(given.one)))
        return
    for length in given.lengths.split(","):
        command = [sys.executable, "-m", "benchmarks.suites.compression.long", "--one", length]
        ran = subprocess.run(command, check=True, capture_output=True, text=True)
        print(ran.stdout.strip(), flush=True)


if __name__ == "__main__":
    main()
