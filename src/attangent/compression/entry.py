"""Compress a prompt into a prefix state of constant size per layer (P1 Appendix C)."""

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, TypeGuard

import torch

from attangent._core.deprecation import renamed_arguments
from attangent._core.files import only_writer, real_folder, write_json
from attangent._core.progress import Progress
from attangent.adapters.attaching import detach
from attangent.compression.pieces import PIECE, LongPrompt, check_pieces, compress_pieces
from attangent.compression.pipeline import CompressionRun
from attangent.compression.prompt import Prompt, check_model, is_long, read_prompt, sliding_layers
from attangent.compression.questions import MOST_FACTS
from attangent.compression.quiz import Quiz, facts_kept
from attangent.compression.report import Report, draw_curve
from attangent.compression.request import CompressionRequest
from attangent.compression.result import CompressedPrompt, Rotation, composed, filled_cache
from attangent.compression.size_search import compress_by, keeps_enough, search_size
from attangent.compression.text import SINKS

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

CURVE = "curve.png"
REPORT = "report.json"
# Maximum number of tokens of a prompt that is compressed as a whole.
_WHOLE = 4096
_STEPS = 6
# Times count if their median is at most this many times the smallest.
_STEADY = 1.25


@renamed_arguments("0.2", told="progress")
def compress(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    prompt: Prompt | Sequence[str],
    size: int = 64,
    method: str = "recall",
    calibration: Sequence[str] | None = None,
    distill: int = 0,
    seed: int = 0,
    *,
    progress: Progress | None = None,
) -> CompressedPrompt:
    """Compress a prompt into `size` virtual tokens per layer and KV head of a causal language model.

    A virtual token is one key and one value that attention sees instead of the prompt's. A prompt of at most
    `size` tokens is kept exactly. A prompt longer than the model's context or a layer's window is compressed
    piece by piece, with `size` tokens per piece; one of more than 4,096 tokens that fits is too, with `size`
    tokens in all. `compress_to_folder` searches for the smallest size that keeps the answers.

    Args:
        model: A bare causal language model.
        tokenizer: Its tokenizer.
        prompt: Text, or the first messages of a chat ([{"role": "system", "content": ...}]). Several texts
            are compressed one by one and combined.
        size: Average number of virtual tokens per KV head.
        method: `recall` keeps the tokens needed to recall the prompt, more for heads that need more, and fits
            their masses and values. `plain` keeps as many per head, without masses, as other engines need.
        calibration: Texts to fit on; by default texts that the model writes after the prompt, and the prompt.
        distill: Steps of training after the closed form.
        seed: Seed of all random draws.
        progress: Called with the name of a step, the work done and the total.

    Returns:
        The compressed prompt, which attaches to the model and saves to a folder.

    Raises:
        AttangentError: If the model, the prompt or an option does not fit.

    Example:
        >>> guide = [{"role": "system", "content": Path("guide.md").read_text()}]  # doctest: +SKIP
        >>> prompt = attangent.compress(model, tokenizer, guide, size=64)  # doctest: +SKIP
        >>> prompt.save(model, "guide")  # doctest: +SKIP
        >>> ChatSession(model, tokenizer, prompt).say("Who is the mayor?")  # doctest: +SKIP
    """
    if _are_texts(prompt):
        options: dict[str, Any] = {"calibration": calibration, "distill": distill, "seed": seed}
        return composed(
            [compress(model, tokenizer, text, size, method, progress=progress, **options) for text in prompt]
        )
    request = CompressionRequest(
        prompt, keep=0, size=size, method=method, calibration=calibration, distill=distill, seed=seed
    )
    check_model(model, tokenizer)
    of_pieces = _request_of_pieces(model, tokenizer, request)
    if of_pieces is not None:
        long = LongPrompt.of(model, tokenizer, prompt)
        return compress_pieces(model, tokenizer, long, of_pieces, progress=progress).prompt
    return compress_by(CompressionRun(model, tokenizer, request, progress=progress), request).prompt


def _request_of_pieces(model: Any, tokenizer: Any, request: CompressionRequest) -> CompressionRequest | None:
    """Return the request for the pieces of a long prompt; None if the prompt is compressed as a whole."""
    ids, _ = read_prompt(tokenizer, request.prompt)
    if is_long(model, ids):
        return request
    # Time and memory grow with the square of a prompt that is compressed as a whole.
    if len(ids) <= _WHOLE or request.export or request.distill:
        return None
    if request.searches and request.size is None:
        return request
    return replace(request, size=max(SINKS + 1, request.fixed_size * PIECE // len(ids)))


def _are_texts(prompt: Any) -> TypeGuard[Sequence[str]]:
    several = isinstance(prompt, Sequence) and not isinstance(prompt, str) and len(prompt) > 0
    return several and all(isinstance(text, str) for text in prompt)


def compress_to_folder(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    request: CompressionRequest,
    out: Path,
    progress: Progress | None = None,
) -> Report:
    """Compress a prompt, save the adapter to a folder, measure it and write the report next to it.

    Intermediate results stay in the folder until the report is written, so that an interrupted run resumes.
    Only one run at a time may write to a folder.

    Args:
        model: A bare causal language model.
        tokenizer: Its tokenizer.
        request: The prompt and how to compress it.
        out: Folder to write to.
        progress: Called with the name of a step, the work done and the total.

    Returns:
        The report.

    Raises:
        AttangentError: If the request cannot be carried out for this model.

    Example:
        >>> request = CompressionRequest("A long prompt ...", keep=0.9)
        >>> compress_to_folder(model, tokenizer, request, Path("out")).headline  # doctest: +SKIP
        'facts kept: 19 of 20, between 76% and 99% of all such facts'
    """
    check_model(model, tokenizer)
    of_pieces = _request_of_pieces(model, tokenizer, request)
    if request.export:
        Rotation.of(model)
    if of_pieces is not None:
        check_pieces(of_pieces)
    with only_writer(real_folder(out), "compression"):
        if of_pieces is not None:
            return _long_to_folder(model, tokenizer, of_pieces, out, progress)
        run = CompressionRun(model, tokenizer, request, folder=out, progress=progress)
        result = compress_by(run, request)
        result.prompt.save(model, out)
        report = replace(
            _report(run, result.prompt, request),
            decode=decode_seconds(run, result.prompt),
            goal=result.as_json(),
            resumed=run.resume.resumed,
        )
        if result.attempts:
            draw_curve(result.attempts, request.keep, out / CURVE)
        if request.export:
            with run.stages.named(f"for {request.export}"):
                report = replace(report, exported=_export(run, result.prompt, request, out / request.export))
        write_json(out / REPORT, report.as_json())
        run.resume.clear()
    return report


def _report(
    run: CompressionRun,
    prompt: CompressedPrompt,
    request: CompressionRequest,
    quiz: Quiz | None = None,
    unasked: Sequence[str] | None = None,
) -> Report:
    answers = run.users_answers(prompt, request.questions)
    own = run.answers(prompt, quiz)
    return Report(
        prompt_tokens=len(run.ids),
        size=prompt.size,
        method=prompt.method,
        fidelity=run.fidelity(prompt),
        own=own,
        candidates=(run.quiz if quiz is None else quiz).candidates,
        unasked=tuple(run.unasked_by(run.quiz) if unasked is None else unasked),
        seconds={name: round(value, 3) for name, value in run.stages.seconds.items()},
        bytes_of_cache=run.cache.number_of_bytes,
        bytes_of_states=prompt.number_of_bytes,
        answers=answers,
        distilled=prompt.distilled,
    )


def _long_to_folder(
    model: Any, tokenizer: Any, request: CompressionRequest, out: Path, progress: Progress | None
) -> Report:
    """Compress a prompt that is not read at once: the goal or the size holds for each piece.

    The model is not asked with the whole prompt. Its questions are those that a piece answers,
    uncompressed, after the others; all are asked with the final states. The fidelity and the user's answers
    compare with the last piece, uncompressed, after the others.
    """
    long = LongPrompt.of(model, tokenizer, request.prompt)
    result = compress_pieces(model, tokenizer, long, request, out, progress, MOST_FACTS)
    result.prompt.save(model, out)
    report = _report(result.last, result.prompt, request, result.quiz, result.unasked)
    report = replace(
        report,
        pieces=len(long.pieces),
        prompt_tokens=long.tokens,
        bytes_of_cache=_bytes_of_cache(result.last, long.tokens),
        resumed=result.resume.resumed,
    )
    if request.searches:
        met = keeps_enough(report.kept, report.asked, request.keep)
        stopped = "" if met else "pieces keep fewer answers together than each of them alone"
        goal = {"met": met, "stopped": stopped, "attempts": [], "sizes": list(result.sizes)}
        report = replace(report, goal=goal)
    write_json(out / REPORT, report.as_json())
    result.resume.clear()
    return report


def _bytes_of_cache(run: CompressionRun, tokens: int) -> int:
    """Return the memory of the keys and values of `tokens` tokens; a sliding window bounds its layers."""
    sliding = sliding_layers(run.model)
    window = getattr(run.model.config, "sliding_window", None) or tokens
    total = 0
    for name, pair in run.cache.layers.items():
        each = sum(tensor.numel() * tensor.element_size() for tensor in pair) // len(run.ids)
        total += each * (min(tokens, window) if name in sliding else tokens)
    return total


def _export(
    run: CompressionRun, prompt: CompressedPrompt, request: CompressionRequest, folder: Path
) -> dict[str, Any]:
    """Write the prompt for peft and measure it.

    Heads of a plain cache have the same size and no masses, so more tokens are needed. With a goal, search
    from the adapter's size up to half of the prompt. Otherwise take the adapter's size and training.
    """
    attempts: list[Any] = []
    if prompt.exact:
        plain = prompt
    elif request.searches:
        # Beyond half of the prompt an export saves too little to be worth a fit.
        most = max(prompt.size, min(request.size or len(run.ids), len(run.ids) // 2))
        result = search_size(run, replace(request, size=most, method="plain"), least=prompt.size)
        plain = result.prompt
        attempts = result.attempts
    else:
        plain = run.fit(prompt.size, "plain")
        if prompt.distilled:
            plain = run.distill(plain, prompt.distilled)
    plain.export_peft(run.model, folder)
    return {
        "folder": folder.name,
        "size": plain.size,
        "distilled": plain.distilled,
        "kept": sum(facts_kept(run.answers(plain)).values()),
        "ratio": run.fidelity(plain).ratio,
        "attempts": [asdict(attempt) for attempt in attempts],
    }


def decode_seconds(run: CompressionRun, prompt: CompressedPrompt, batch: int = 1) -> dict[str, float]:
    """Time a decoding step with the full prompt, the compressed one and none.

    The three take turns. The result is empty if the times of one of them differ too much to be compared.
    """
    from transformers import DynamicCache

    model = run.model
    word = run.ids[-1:].expand(batch, 1).to(model.device)
    times: dict[str, list[float]] = {"full": [], "compressed": [], "none": []}
    with torch.no_grad():
        caches = {name: DynamicCache() for name in times}
        caches["full"] = filled_cache(list(run.cache.layers.values()), batch)
        for turn in range(_STEPS + 1):
            for name, cache in caches.items():
                if name == "compressed":
                    prompt.attach(model)
                try:
                    start = time.perf_counter()
                    model(word, past_key_values=cache, use_cache=True, logits_to_keep=1)
                    if turn:  # the first step warms up
                        times[name].append(time.perf_counter() - start)
                finally:
                    if name == "compressed":
                        detach(model)
    steady = all(median(some) <= _STEADY * min(some) for some in times.values())
    return {name: min(some) for name, some in times.items()} if steady else {}
