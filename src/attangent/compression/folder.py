"""A prompt compressed to a folder: the adapter, its report, and answers behind it."""

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from attangent._core.errors import AttangentError
from attangent._core.files import only_writer, real_folder, write_json
from attangent._core.random import generator
from attangent.adapters.attaching import detach
from attangent.compression.compressor import Compressor
from attangent.compression.curve import draw_curve
from attangent.compression.distilling.distill import Distillation
from attangent.compression.export import check_export, check_exportable
from attangent.compression.pieces import PieceRun
from attangent.compression.progress import Progress
from attangent.compression.prompt import Reader, check_model, is_long, read_prompt
from attangent.compression.quiz.questions import AT_MOST
from attangent.compression.report import Report
from attangent.compression.request import Order
from attangent.compression.result import CompressedPrompt
from attangent.compression.size_search import Attempt, Goal, keeps_enough, reach
from attangent.compression.text import LENGTH

CURVE = "curve.png"
REPORT = "report.json"
_STEPS = 4


def compress_to_folder(
    model: Any,
    tokenizer: Any,
    prompt: Any,
    out: Path,
    order: Order,
    *,
    questions: Sequence[tuple[str, str | None]] = (),
    calibration: Sequence[str] | None = None,
    seed: int = 0,
    export: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Compress as the order says, save the adapter to `out`, measure it, and write the report beside it.

    What has been worked out is kept in the folder until the report is written, so that a run that was cut off
    goes on where it stopped. One run at a time may write to a folder.
    """
    order.check()
    check_export(export)
    check_model(model, tokenizer)
    options: dict[str, Any] = {"calibration": calibration, "seed": seed, "folder": out}
    long = is_long(model, read_prompt(tokenizer, prompt)[0], LENGTH)
    if export:
        check_exportable(model, long)
    if long:
        if progress is not None:
            options["progress"] = progress
        return _long_to_folder(model, tokenizer, prompt, order, questions, options)
    job = Compressor(model, tokenizer, prompt, asked=questions, progress=progress, **options)
    with only_writer(real_folder(out), "compression"):
        outcome = order.carry_out(job)
        found = outcome.found
        found.save(model, out)
        report = replace(
            job.report(found, questions),
            decode=decode_seconds(job, found),
            goal=outcome.as_json() if outcome.attempts else {},
        )
        if outcome.attempts:
            draw_curve(outcome.attempts, order.keep, out / CURVE, outcome.unfitted)
        if export:
            with job.stages.named(f"for {export}"):
                report = replace(report, exported=_export(job, found, order.goal(), out / export))
        write_json(out / REPORT, report.as_json())
        job.work.finish()
    return report


def _long_to_folder(
    model: Any,
    tokenizer: Any,
    prompt: Any,
    order: Order,
    questions: Sequence[tuple[str, str | None]],
    options: dict[str, Any],
) -> Report:
    """A prompt that cannot be read at once: piece by piece, the goal or the size of the order for each.

    No model can be asked with the whole prompt. Own questions are those that a piece answers while it stands
    whole behind the others; all of them are asked behind the final states. The effect on other text and the
    answers to the user's questions are compared with the last piece whole behind the others.
    """
    if order.distill:
        raise AttangentError(
            f"distill is {order.distill} for a prompt that the model cannot read at once; its pieces are not "
            "trained: leave --distill out"
        )
    goal, out = order.goal(), options["folder"]
    goal = None if goal is None else replace(goal, steps=0)
    run = PieceRun(
        model,
        tokenizer,
        prompt,
        order.plain_size,
        order.method,
        goal=goal,
        questions=AT_MOST,
        total=order.total,
        **options,
    )
    with only_writer(real_folder(out), "compression"):
        found = run.compressed()
        found.save(model, out)
        assert run.last is not None
        pieces, tokens = len(run.long.pieces), len(run.long.ids)
        report = run.last.report(found, questions, run.quiz)
        report = replace(report, pieces=pieces, prompt_tokens=tokens)
        if goal is not None:
            report = replace(report, goal=_long_goal(report, goal, run.sizes))
        write_json(out / REPORT, report.as_json())
        run.work.finish()
    return report


def _long_goal(report: Report, goal: Goal, sizes: Sequence[int]) -> dict[str, Any]:
    """Whether all pieces together keep enough answers, and the size that each of them got."""
    met = keeps_enough(report.kept, len(report.own), goal.keep)
    stopped = "" if met else "pieces that are compressed one by one keep less together than each by itself"
    return {"met": met, "stopped": stopped, "attempts": [], "sizes": list(sizes)}


def _export(job: Compressor, found: CompressedPrompt, goal: Goal | None, folder: Path) -> dict[str, Any]:
    """Write the prompt for peft and measure it.

    Heads of a plain cache have the same size and no masses, so that more tokens are needed: the smallest size
    from that of the adapter to half of the prompt that meets the goal, else the one that comes nearest.
    Without a goal the size is that of the adapter, and the export is distilled where the adapter was.
    """
    tried: list[Attempt] = []
    if found.exact:
        plain = found
    elif goal is not None:
        most = max(found.size, min(goal.size or len(job.ids), len(job.ids) // 2))
        outcome = reach(job, replace(goal, size=most, least=found.size), "plain")
        plain, tried = outcome.found, outcome.attempts
    else:
        plain = job.fit(found.size, "plain")
        if found.distilled:
            plain = job.distill(plain, Distillation(found.distilled, seed=job.seed))
    plain.export_peft(job.model, folder)
    kept = sum(not answer.lost for answer in job.quiz_answers(plain))
    return {
        "folder": folder.name,
        "size": plain.size,
        "distilled": plain.distilled,
        "kept": kept,
        "ratio": job.fidelity(plain).ratio,
        "attempts": [asdict(attempt) for attempt in tried],
    }


def decode_seconds(job: Compressor, compressed: CompressedPrompt, batch: int = 1) -> dict[str, float]:
    """Seconds of one decoding step behind the full prompt, the compressed one and none: minima of four."""
    model, cache = job.model, job.cache
    word = job.ids[-1:].expand(batch, 1).to(model.device)

    def timed(past: Any) -> float:
        model(word, past_key_values=past, use_cache=True)
        times = []
        for _ in range(_STEPS):
            start = time.perf_counter()
            model(word, past_key_values=past, use_cache=True, logits_to_keep=1)
            times.append(time.perf_counter() - start)
        return min(times)

    from transformers import DynamicCache

    with torch.no_grad():
        found = {"full": timed(filled_cache(cache, batch)), "none": timed(DynamicCache())}
        compressed.attach(model)
        try:
            found["compressed"] = timed(DynamicCache())
        finally:
            detach(model)
    return found


def filled_cache(cache: Any, batch: int) -> Any:
    """A cache of transformers that holds the prompt for each sequence of a batch."""
    from transformers import DynamicCache

    filled = DynamicCache()
    for place, (keys, values) in enumerate(cache.layers.values()):
        filled.update(keys.expand(batch, -1, -1, -1).clone(), values.expand(batch, -1, -1, -1).clone(), place)
    return filled


def answer_behind(
    model: Any, tokenizer: Any, reader: Reader, text: str, tokens: int, temperature: float, seed: int
) -> str:
    """What a model with a compressed prompt attached says to `text`."""
    ids = reader.question(tokenizer, text)[None].to(model.device)
    options: dict[str, Any] = {"do_sample": False}
    if temperature > 0:
        options = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
        torch.manual_seed(generator(seed, "generate").initial_seed() % (1 << 63))
    with torch.no_grad():
        out = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=tokens,
            pad_token_id=getattr(tokenizer, "eos_token_id", None),
            **options,
        )
    return tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True).strip()
