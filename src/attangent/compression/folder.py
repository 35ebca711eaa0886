"""A prompt compressed to a folder: the adapter, its report, and answers behind it."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from attangent._files import only_writer, real_folder, write_json
from attangent._random import generator
from attangent.adapters.attaching import detach
from attangent.compression.compressor import Compressor
from attangent.compression.curve import draw_curve
from attangent.compression.export import check_export
from attangent.compression.order import DEFAULT_SIZE, Order
from attangent.compression.pieces import PieceRun
from attangent.compression.prompt import Reader, check_model, is_long, read_prompt
from attangent.compression.report import Report
from attangent.compression.result import CompressedPrompt
from attangent.compression.stages import Progress
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
    if is_long(model, read_prompt(tokenizer, prompt)[0], LENGTH):
        return _long_to_folder(model, tokenizer, prompt, out, order, calibration, seed, progress)
    job = Compressor(
        model, tokenizer, prompt, calibration=calibration, seed=seed, progress=progress, folder=out
    )
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
            draw_curve(outcome.attempts, order.keep, out / CURVE)
        if export:
            report = replace(report, exported=_export(job, found, out / export))
        write_json(out / REPORT, report.as_json())
        job.work.finish()
    return report


def _long_to_folder(
    model: Any,
    tokenizer: Any,
    prompt: Any,
    out: Path,
    order: Order,
    calibration: Sequence[str] | None,
    seed: int,
    progress: Progress | None,
) -> Report:
    """A prompt that cannot be read at once: piece by piece, with the size of the order for each.

    What is reported is that of the last piece, behind the others: none can be asked with the whole prompt.
    """
    options: dict[str, Any] = {"calibration": calibration, "seed": seed, "folder": out}
    if progress is not None:
        options["progress"] = progress
    run = PieceRun(model, tokenizer, prompt, order.size or DEFAULT_SIZE, order.method, **options)
    with only_writer(real_folder(out), "compression"):
        found = run.compressed()
        found.save(model, out)
        assert run.last is not None
        pieces, tokens = len(run.long.pieces), len(run.long.ids)
        report = replace(run.last.report(found), pieces=pieces, prompt_tokens=tokens)
        write_json(out / REPORT, report.as_json())
        run.work.finish()
    return report


def _export(job: Compressor, found: CompressedPrompt, folder: Path) -> dict[str, Any]:
    """Write the prompt for peft, at the same size but with masses of one, and measure it."""
    plain = found if found.exact else job.fit(found.size, "plain")
    plain.export_peft(job.model, folder)
    kept = sum(not answer.lost for answer in job.quiz_answers(plain))
    return {"folder": folder.name, "kept": kept, "ratio": job.fidelity(plain).ratio}


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
