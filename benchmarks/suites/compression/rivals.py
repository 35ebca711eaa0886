"""Methods to compare with: kvpress's presses, Attention Matching, KVSculpt, CARTRIDGE, a summary, a cut."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from attangent.attention import RaggedState
from attangent.compression.attribution import Chosen, Scores, best_tokens, lesson_rows, token_scores
from attangent.compression.bfloat16 import fast_products
from attangent.compression.capture import prefill
from attangent.compression.distilling import Distillation, distill_states
from attangent.compression.methods.base import CompressionMethod
from attangent.compression.methods.plain import PlainMethod
from attangent.compression.pipeline import CompressionRun, fit_states
from attangent.compression.problem import HeadProblem, Solution, fitted_values, refined, refitted
from attangent.compression.prompt import tokens_of
from attangent.compression.prompt_cache import PromptForm
from attangent.compression.quiz import continuations
from attangent.compression.text import SINKS, Calibration
from attangent.papers.p1_prefix.prompt_states import anchors
from benchmarks.harness.child import Unavailable
from benchmarks.harness.folders import ENVIRONMENTS
from benchmarks.suites.compression.grid import WITH_MASSES

ENVIRONMENT = ENVIRONMENTS / "kvpress"
KVPRESS = "kvpress==0.5.5"
_FROM_SCRATCH = 0.02
"""The rate of tokens that nothing was fitted to."""
# Rounds of KVSculpt, and steps of L-BFGS per round: 100 steps as in a public implementation, for no code of
# the authors is known. Rounds of five leave 1.6 times the error, rounds of 20 leave 0.7 times.
_ROUNDS = 10
_ITERATIONS = 10
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


def attention_matching(job: CompressionRun, size: int) -> Entry:
    """arXiv 2602.16284 as published, with equal sizes: tokens by orthogonal matching pursuit, masses by
    non-negative least squares, values by least squares, layer by layer on a repetition of the prompt."""
    _ = job.cache
    return timed("Attention Matching", size, lambda: _matched(job, repeated(job), _equal(job, size)))


class MatchingMethod(CompressionMethod):
    """The fit of Attention Matching: tokens picked head by head, only their number is chosen beforehand."""

    name = "matching"

    def choose(self, scores: Scores, size: int) -> Chosen:
        return {name: [torch.arange(size) for _ in layer] for name, layer in scores.items()}

    def fit_head(self, problem: HeadProblem, chosen: torch.Tensor) -> Solution:
        return anchors(problem, len(chosen))


def _matched(job: CompressionRun, text: Calibration, counts: dict[str, list[int]]) -> dict[str, Any]:
    chosen = {name: [torch.arange(count) for count in heads] for name, heads in counts.items()}
    return fit_states(job.model, job.cache, text, MatchingMethod(), chosen)


def _equal(job: CompressionRun, size: int) -> dict[str, list[int]]:
    return {name: [size] * len(keys) for name, (keys, _) in job.cache.layers.items()}


def repeated(job: CompressionRun) -> Calibration:
    """The repetitions of a prompt as text to fit on."""
    return Calibration.of([turn.ids for turn in job.repetitions])


def equal_anchors(job: CompressionRun, size: int) -> Entry:
    """The same fit on the text of our own."""
    text = job.calibration
    return timed("anchors", size, lambda: _matched(job, text, _equal(job, size)))


def matching_by_sizes(job: CompressionRun, size: int, scores: dict[str, torch.Tensor]) -> Entry:
    """Attention Matching with sizes by head measured once for a model, on another prompt's scores."""
    counts = sizes_by_head(scores, size, len(job.ids))
    return timed("Attention Matching, sizes by head", size, lambda: _matched(job, repeated(job), counts))


def sculpted(job: CompressionRun, size: int) -> Entry:
    """Fit KVSculpt (arXiv 2603.27819) to the prompt's repetition, with head sizes by scores like KVzip's.

    The authors size heads by the errors of a pilot run; their formula is not in the abstract, all that was
    at hand of the paper.
    """
    cache = job.cache

    def fitted() -> dict[str, Any]:
        scores = token_scores(job.model, cache, lesson_rows(job.repetitions)).attention
        method = SculptedMethod()
        return fit_states(job.model, cache, repeated(job), method, method.choose(scores, size))

    return timed("KVSculpt", size, fitted)


class SculptedMethod(CompressionMethod):
    """The fit of KVSculpt: free keys by L-BFGS, values by least squares every few steps, no masses."""

    name = "sculpted"
    weighted = False

    def choose(self, scores: Scores, size: int) -> Chosen:
        return best_tokens(scores, size)

    def fit_head(self, problem: HeadProblem, chosen: torch.Tensor) -> Solution:
        best = _with_values(problem, problem.keys[chosen], problem.values[chosen])
        error = sculpting_error(problem, best)
        for _ in range(_ROUNDS):
            keys = _moved_keys(problem, best)
            moved = _with_values(problem, keys, best[2])
            now = sculpting_error(problem, moved)
            # A line search that ends at infinite logits leaves nan.
            if not now < error:
                break
            best = moved
            error = now
        return best


def _with_values(problem: HeadProblem, keys: torch.Tensor, near: torch.Tensor) -> Solution:
    """Solve for the values of tokens with these keys."""
    ones = torch.ones(len(keys))
    return keys, ones, fitted_values(problem, problem.attention_to(keys), ones, near)


def _moved_keys(problem: HeadProblem, solution: Solution) -> torch.Tensor:
    """Take some steps of L-BFGS on the keys, with the values fixed.

    Curvature measured with other values would be wrong: each call starts without any.
    """
    start, ones, values = solution
    keys = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([keys], max_iter=_ITERATIONS, line_search_fn="strong_wolfe")

    @torch.enable_grad()
    def error() -> torch.Tensor:
        optimizer.zero_grad()
        found = sculpting_error(problem, (keys, ones, values))
        found.backward()
        return found

    optimizer.step(error)
    return keys.detach()


def sculpting_error(problem: HeadProblem, solution: Solution) -> torch.Tensor:
    """Return the mean squared error of the output plus that of the logsumexp over all keys."""
    keys, _, values = solution
    parts = problem.attention_to(keys)
    total = (parts.sum(dim=1) + problem.rest).unsqueeze(1)
    output = (parts @ values + problem.rest.unsqueeze(1) * problem.rest_output) / total
    return (output - problem.output).square().mean() + total.log().square().mean()


def sizes_by_head(scores: dict[str, torch.Tensor], size: int, tokens: int) -> dict[str, list[int]]:
    """Of `size` x heads tokens the share of each head that it has among the best of another prompt.

    No head gets fewer than the first four, nor more than the prompt has.
    """
    there = next(iter(scores.values())).shape[1]
    chosen = best_tokens(scores, max(SINKS + 1, round(size * there / tokens)))
    shares = torch.tensor([float(len(own)) for layer in chosen.values() for own in layer])
    total, counts = size * len(shares), torch.zeros(len(shares))
    low, high = 0.0, 2.0 * tokens
    for _ in range(60):
        unit = (low + high) / 2
        counts = (shares * unit / shares.mean()).clamp(SINKS, tokens).floor()
        low, high = (unit, high) if counts.sum() <= total else (low, unit)
    counts = iter((shares * low / shares.mean()).clamp(SINKS, tokens).floor().int().tolist())
    return {name: [next(counts) for _ in layer] for name, layer in chosen.items()}


class WeightedPlain(PlainMethod):
    """What `plain` does, with masses that are fitted and refined in the place of masses of one."""

    def fit_head(self, problem: HeadProblem, chosen: torch.Tensor) -> Solution:
        return refined(problem, refitted(problem, chosen))


def weighted_plain(job: CompressionRun, size: int) -> Entry:
    """The tokens of `plain` on the same text with masses of their own, to see what masses are worth."""
    method = WeightedPlain()
    cache = job.cache
    text = job.calibration
    chosen = method.choose(job.scores, size)

    def fitted() -> dict[str, Any]:
        with fast_products(job.model):
            return fit_states(job.model, cache, text, method, chosen)

    return timed(WITH_MASSES, size, fitted)


def cut(job: CompressionRun, size: int) -> Entry:
    """The first tokens of the prompt as they are."""
    return timed("prompt cut", size, lambda: first_tokens(job, size))


def first_tokens(job: CompressionRun, size: int) -> dict[str, Any]:
    return {
        name: RaggedState.of(
            [k[:size] for k in keys], [v[:size] for v in values], [torch.ones(size) for _ in keys]
        )
        for name, (keys, values) in job.cache.layers.items()
    }


def cartridge(job: CompressionRun, size: int, steps: int) -> Entry:
    """What peft's CARTRIDGE trains, the cache of the first tokens, on the text of our distillation.

    Masses are trained too, which peft's has not: it can only gain by them.
    """
    plan, start = Distillation(steps, rate=_FROM_SCRATCH), first_tokens(job, size)
    lessons = job.lessons
    return timed(
        "CARTRIDGE",
        size,
        lambda: distill_states(job.model, job.cache, start, lessons, plan),
    )


def summary(job: CompressionRun, size: int) -> Entry:
    """What the model itself writes when asked for a summary of this length."""
    started = time.process_time()
    asked = job.reader.question(job.tokenizer, _SUMMARY)
    (text,) = continuations(job.model, job.tokenizer, [asked], PromptForm.full(job.cache), size)
    return Entry("summary", size, time.process_time() - started, text=text)


def summarised(job: CompressionRun, text: str) -> Any:
    """The cache of a summary as the system message."""
    chat = [{"role": "system", "content": text}]
    ids = tokens_of(job.tokenizer, job.tokenizer.apply_chat_template(chat, tokenize=False))
    return prefill(job.model, ids)


def kvpress_python() -> Path:
    """The interpreter of an environment with kvpress, made where it is missing."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.is_file():
        version = f"torch=={torch.__version__.partition('+')[0]}"
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


class Presses:
    """What kvpress leaves of the prompt's cache, as states of our own: the same tokens in the same places.

    All that is `wanted`, presses with sizes, is made when the first of them is asked for, in one process.
    """

    def __init__(self, job: CompressionRun, wanted: Sequence[tuple[str, int]], place: Path):
        self.job, self.wanted, self.place = job, wanted, place

    @cached_property
    def folder(self) -> Path:
        """Where the files are, once they have been made."""
        job, place = self.job, self.place
        prefix = tokens_of(job.tokenizer, "<|im_start|>system\n") if job.reader.roles else []
        order = {"jobs": list(self.wanted), "ids": job.ids.tolist(), "prefix": len(prefix)}
        order["threads"] = torch.get_num_threads()
        python, child = kvpress_python(), Path(__file__).with_name("kvpress_child.py")
        file = place / "order.json"
        file.write_text(json.dumps(order))
        command = [str(part) for part in (python, child, job.model.config._name_or_path, file, place)]
        ran = subprocess.run(command, check=False, capture_output=True, text=True)
        if ran.returncode:
            raise Unavailable(f"{KVPRESS} failed: {ran.stderr.strip().splitlines()[-1]}")
        return place

    def entry(self, press: str, size: int) -> Entry:
        """The states of one of them, and the processor seconds that it took."""
        from safetensors import safe_open

        path = self.folder / f"{press}-{size}.safetensors"
        with safe_open(path, framework="pt") as file:
            seconds, states = float(file.metadata()["seconds"]), {}
            for place, name in enumerate(self.job.cache.layers):
                counts = file.get_tensor(f"{place}.counts").tolist()
                keys, values = (
                    file.get_tensor(f"{place}.{part}").split(counts) for part in ("keys", "values")
                )
                states[name] = RaggedState.of(list(keys), list(values), [torch.ones(n) for n in counts])
        return Entry(press, size, seconds, states)
