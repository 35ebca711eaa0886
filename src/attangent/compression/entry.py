"""A long prompt becomes a prefix state of constant size in every layer (P1 Appendix C): the one call."""

from collections.abc import Sequence
from typing import Any, TypeGuard

from attangent._core.checks import check_size
from attangent._core.deprecation import renamed_arguments
from attangent._core.gate import checked
from attangent.compression.compressor import Compressor
from attangent.compression.distilling.distill import Distillation
from attangent.compression.methods import DEFAULT, check_method
from attangent.compression.progress import Progress
from attangent.compression.prompt import Prompt, check_model, is_long, read_prompt
from attangent.compression.result import CompressedPrompt, composed
from attangent.compression.text import LENGTH


@renamed_arguments("0.2", told="progress")
@checked
def compress(
    model: Any,
    tokenizer: Any,
    prompt: Prompt | Sequence[str],
    size: int = 64,
    method: str = DEFAULT,
    calibration: Sequence[str] | None = None,
    distill: int = 0,
    seed: int = 0,
    *,
    tolerance: float | None = None,
    progress: Progress | None = None,
) -> CompressedPrompt:
    """A prompt as `size` virtual tokens for each layer and KV head of a causal language model.

    prompt: text, or the first messages of a chat ([{"role": "system", "content": ...}]); several texts are
        compressed one by one and stand side by side.
    method: `recall` (the tokens needed to say the prompt again, more for heads that need more, `size` in the
        mean, with masses and values of their own in closed form), `plain` (as many tokens for each head and
        no masses, as other engines hold them), `anchors` (as many for each head, those that explain most,
        with masses), or a rival: `select` (the most attended tokens as they are), `merge` (every token merged
        into the nearest of these), `elu` (the map of P1's authors; its size is that of the heads).
    calibration: texts to be read behind the prompt; by default what the model writes there, and the prompt.
    distill: steps of training after the closed form.
    tolerance: the smallest size from 16, 32, 64, ... whose ratio KL(full || compressed) / KL(full || none)
        on held-out text is at most this, in the place of `size`.

    A prompt longer than the model's context or a layer's window is compressed piece by piece, with `size`
    tokens for each piece.

    The result attaches to the model (`attach`), and saves to a folder (`save`) that `load_adapter` reads. A
    prompt of at most `size` tokens is kept exactly.

        guide = [{"role": "system", "content": Path("guide.md").read_text()}]
        found = attangent.compress(model, tokenizer, guide, size=64)
        found.save(model, "guide-adapter")
        ChatSession(model, tokenizer, found).say("Who is the mayor?")
    """
    if _are_texts(prompt):
        each = (size, method, calibration, distill, seed)
        parts = [
            compress(model, tokenizer, part, *each, tolerance=tolerance, progress=progress) for part in prompt
        ]
        return composed(parts)
    plan = Distillation(distill, seed=seed) if distill else None
    check_method(method, distill)
    check_size("size", size)
    check_model(model, tokenizer)
    if tolerance is None and plan is None and is_long(model, read_prompt(tokenizer, prompt)[0], LENGTH):
        return _in_pieces(model, tokenizer, prompt, size, method, calibration, seed, progress)
    job = Compressor(model, tokenizer, prompt, calibration=calibration, seed=seed, progress=progress)
    found = job.fit(size, method) if tolerance is None else job.fit_to(tolerance, method)
    return found if plan is None else job.distill(found, plan)


def _in_pieces(
    model: Any,
    tokenizer: Any,
    prompt: Any,
    size: int,
    method: str,
    calibration: Sequence[str] | None,
    seed: int,
    progress: Progress | None,
) -> CompressedPrompt:
    from attangent.compression.pieces import compress_pieces

    options: dict[str, Any] = {"calibration": calibration, "seed": seed}
    if progress is not None:
        options["progress"] = progress
    return compress_pieces(model, tokenizer, prompt, size, method, **options)


def _are_texts(prompt: Any) -> TypeGuard[Sequence[str]]:
    many = isinstance(prompt, Sequence) and not isinstance(prompt, str) and len(prompt) > 0
    return many and all(isinstance(part, str) for part in prompt)
