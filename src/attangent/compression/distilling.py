"""Distillation: train virtual tokens until the model answers with them as it does with the whole prompt."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError
from attangent._core.progress import Advance, no_progress
from attangent._core.random import generator
from attangent.attention import PrefixState, RaggedState
from attangent.attention.features import Anchors
from attangent.attention.prefix import RaggedTokens
from attangent.compression.attribution import LessonRow, Teacher
from attangent.compression.bfloat16 import HalvedProduct
from attangent.compression.prompt_cache import PromptCache, PromptState, whole_prompt, with_states
from attangent.compression.resume_cache import ResumeCache

_LARGEST_RATE = 0.006
_LARGE_LOSS = 0.06
_ROUNDS = 2
_FEWEST_STEPS = 12
_MOST_STEPS = 18
_SMALLEST_MASS = 1e-8
# Number of tokens whose logits are compared to learn whether they may be computed alone.
_COMPARED = 64
_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Distillation:
    """Settings of the training: Adam on keys, values and log masses, in units of their standard deviations.

    Attributes:
        steps: Number of steps.
        batch: Rows of text per step.
        rate: Size of the first step, in units of the standard deviations. It falls to 0 along a cosine. None
            derives it from the first loss.
        save_every: Steps between two checkpoints.
        seed: Seed of the order of the rows.
        masses: Whether the masses are trained.
    """

    steps: int
    batch: int = 4
    rate: float | None = None
    save_every: int = 10
    seed: int = 0
    masses: bool = True

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "save_every"):
            check_size(name, getattr(self, name))
        if self.rate is not None and not 0 < self.rate < 10:
            raise AttangentError(f"rate must be above 0 and below 10 (got {self.rate!r})")


def enough_steps(rows: int, batch: int = Distillation.batch) -> int:
    """Return the number of steps that reads every row twice, between 12 and 18.

    Fewer than 12 leave no room for the warm-up and the decay of the rate.
    """
    return min(_MOST_STEPS, max(_FEWEST_STEPS, math.ceil(_ROUNDS * rows / batch)))


def fitting_rate(loss: float) -> float:
    """Return the learning rate for this first loss: large steps harm states that are nearly right."""
    return _LARGEST_RATE * min(1.0, loss / _LARGE_LOSS)


class VirtualTokens(RaggedTokens, nn.Module):
    """A state as trainable keys c, values u and log masses log k, with Z = k u.

    The parameters are `steps` in units of the standard deviation of each (1 for log k), so that one learning
    rate suits all.

    Args:
        state: The state to start from.
        masses: Whether to train the masses; those of a plain cache stay 1.
    """

    def __init__(self, state: PromptState, masses: bool = True):
        nn.Module.__init__(self)
        if isinstance(state, PrefixState):
            if not isinstance(state.features, Anchors):
                raise AttangentError(
                    f"only states of virtual tokens can be distilled (got {state.features!r})"
                )
            self.sizes = (state.features.size,) * state.heads
            self.softcap = state.features.softcap
            keys = state.features.acting_keys(state.Z.dtype).expand(state.heads, -1, -1).flatten(0, 1)
            Z = state.Z.flatten(0, 1)
            k = state.k.flatten()
        else:
            self.sizes = state.sizes
            self.softcap = state.softcap
            keys = state.keys
            Z = state.Z
            k = state.k
        # log k must be finite, also for tokens of no mass.
        k = k.detach().clamp(min=_SMALLEST_MASS)
        values = Z.detach() / k.unsqueeze(-1)
        self.starts = (keys.detach(), values, k.log())
        self.units = (_deviation(keys.detach()), _deviation(values), 1.0)
        self.steps = nn.ParameterList(torch.zeros_like(start) for start in self.starts)
        self.steps[2].requires_grad_(masses)

    def tokens(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return keys (R, d), Z (R, dv) and masses (R) of all heads, one head after the other."""
        parts = zip(self.starts, self.units, self.steps, strict=True)
        keys, values, log_masses = (start + unit * step for start, unit, step in parts)
        k = log_masses.exp()
        return keys, values * k.unsqueeze(-1), k

    def state(self) -> PromptState:
        """Return the current state, detached."""
        keys, Z, k = (tensor.detach() for tensor in self.tokens())
        if len(set(self.sizes)) > 1:
            return RaggedState(keys, Z, k, self.sizes, self.softcap)
        by_head = [tensor.unflatten(0, (self.heads, -1)) for tensor in (keys, Z, k)]
        return PrefixState(Anchors(by_head[0], self.softcap), by_head[1], by_head[2])


def _deviation(x: Tensor) -> float:
    return max(x.std(unbiased=False).item(), 1e-6)


def distill_states(
    model: Any,
    cache: PromptCache,
    states: Mapping[str, PromptState],
    lessons: Sequence[LessonRow],
    plan: Distillation,
    resume: ResumeCache | None = None,
    progress: Advance = no_progress,
    teachers: dict[int, Teacher] | None = None,
) -> dict[str, PromptState]:
    """Train states by `plan.steps` of Adam on KL(full prompt || state) over the answers of the lessons.

    Args:
        model: A causal language model.
        cache: The prompt.
        states: The states to start from, by layer.
        lessons: Text to train on.
        plan: Settings of the training.
        resume: Cache from which an interrupted run resumes, if its inputs are the same.
        progress: Called after every step.
        teachers: Known predictions with the whole prompt, by lesson; missing ones are added.

    Returns:
        The trained states.
    """
    tokens = nn.ModuleDict(
        {str(i): VirtualTokens(state, plan.masses) for i, state in enumerate(states.values())}
    )
    prefixes = dict(zip(states, tokens.values(), strict=True))
    trained = {name: p for name, p in tokens.named_parameters() if p.requires_grad}
    optimizer = torch.optim.Adam(trained.values(), betas=(0.9, 0.95))
    resume = resume or ResumeCache()
    checkpoint = f"distillation-{_digest(states, lessons, plan)[:16]}"
    first, rate = _restore(resume, checkpoint, trained, optimizer)
    rate = plan.rate if rate is None else rate
    teachers = {} if teachers is None else teachers
    order = _order(len(lessons), plan)
    chooses = can_choose_logits(model)
    for step in range(first, plan.steps):
        optimizer.zero_grad()
        loss = _add_gradients(model, cache, prefixes, lessons, order[step].tolist(), teachers, chooses)
        rate = fitting_rate(loss) if rate is None else rate
        for group in optimizer.param_groups:
            group["lr"] = rate * _cosine(step, plan.steps)
        optimizer.step()
        progress(1)
        if (step + 1) % plan.save_every == 0 or step + 1 == plan.steps:
            _save(resume, checkpoint, trained, optimizer, step + 1, rate)
    return {name: prefix.state() for name, prefix in prefixes.items()}  # type: ignore[operator]


def _add_gradients(
    model: Any,
    cache: PromptCache,
    prefixes: Mapping[str, Any],
    lessons: Sequence[LessonRow],
    rows: Sequence[int],
    teachers: dict[int, Teacher],
    chooses: bool,
) -> float:
    """Add the gradients of the mean divergence over the counted positions of these rows; return its value.

    Rows are read one by one, which bounds the memory; teachers are asked once. `chooses` says whether the
    model can compute the logits of the teacher's tokens only.
    """
    # Without this list a model whose weights may be trained would get gradients too.
    trained = [part for prefix in prefixes.values() for part in prefix.parameters() if part.requires_grad]
    total = sum(len(lessons[row].counted) for row in rows)
    mean = 0.0
    for row in rows:
        if row not in teachers:
            with torch.no_grad():
                teachers[row] = Teacher.of(lessons[row].logits(model, cache.length, whole_prompt(cache)))
        tokens = teachers[row].tokens
        with only_logits_of(model, tokens) if chooses else nullcontext():
            logits = lessons[row].logits(model, cache.length, with_states(prefixes))
        loss = teachers[row].divergence(logits if chooses else logits[:, tokens]) * (len(logits) / total)
        loss.backward(inputs=trained)
        mean += loss.item()
    return mean


@contextmanager
def only_logits_of(model: Any, tokens: Tensor) -> Iterator[None]:
    """Let the output layer compute the logits of some tokens only; `can_choose_logits` must be true."""
    head = model.get_output_embeddings()
    before = vars(head).get("forward")
    bias = None if head.bias is None else head.bias.detach()[tokens]
    if isinstance(before, HalvedProduct):
        head.forward = HalvedProduct(before.weight[tokens], bias)
    else:
        head.forward = partial(F.linear, weight=head.weight.detach()[tokens], bias=bias)
    try:
        yield
    finally:
        del head.forward
        if before is not None:
            head.forward = before


def can_choose_logits(model: Any) -> bool:
    """Return whether the output layer may compute the logits of some tokens only."""
    head = model.get_output_embeddings()
    # Quantised layers store their weights in other ways, and hooks may expect all logits.
    if type(head) is not nn.Linear or type(head.weight) is not nn.Parameter:
        return False
    if head._forward_hooks or head._forward_pre_hooks or vars(head).keys() & {"_hf_hook", "_old_forward"}:
        return False
    # Steps after the layer may be elementwise, such as a softcap, or need every token: compare.
    ids = torch.zeros(1, 1, dtype=torch.long, device=model.device)
    tokens = torch.arange(0, len(head.weight), max(2, len(head.weight) // _COMPARED), device=model.device)
    try:
        with torch.no_grad():
            expected = model(ids, use_cache=False).logits[..., tokens]
            with only_logits_of(model, tokens):
                logits = model(ids, use_cache=False).logits
    except (IndexError, RuntimeError):
        return False
    return logits.shape == expected.shape and torch.allclose(logits, expected, atol=1e-3, rtol=1e-3)


def _order(count: int, plan: Distillation) -> list[Tensor]:
    """Return the rows of each step: shuffled rounds in which every row occurs once."""
    draw = generator(plan.seed, "distillation")
    needed = plan.steps * plan.batch
    rounds = math.ceil(needed / count) + 1
    shuffled = torch.cat([torch.randperm(count, generator=draw) for _ in range(rounds)])
    # A batch may straddle two rounds; a row counts once per step.
    return [part.unique() for part in shuffled[:needed].split(plan.batch)]


def _cosine(step: int, steps: int) -> float:
    # Adam's second moments are unreliable in the first steps; a short warm-up keeps these small.
    warm = min(1.0, (step + 1) / 5)
    return warm * 0.5 * (1 + math.cos(math.pi * step / steps))


def _digest(states: Mapping[str, PromptState], lessons: Sequence[LessonRow], plan: Distillation) -> str:
    """Return a digest of everything that a distillation depends on."""
    digest = hashlib.sha256(json.dumps(asdict(plan)).encode())
    for row in lessons:
        for part in (*row.text, row.counted):
            digest.update(part.cpu().numpy().tobytes())
    for state in states.values():
        for tensor in state.state_dict().values():
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _save(
    resume: ResumeCache, name: str, trained: Mapping[str, Tensor], optimizer: Any, step: int, rate: float
) -> None:
    """Store the parameters, Adam's moments, the next step and the rate."""
    tensors = {"step": torch.tensor(step), "rate": torch.tensor(rate, dtype=torch.float64)}
    for key, parameter in trained.items():
        tensors[f"{key}/now"] = parameter
        tensors |= {f"{key}/{moment}": optimizer.state[parameter][moment] for moment in _MOMENTS}
    resume.save_tensors(name, tensors)


def _restore(
    resume: ResumeCache, name: str, trained: Mapping[str, Tensor], optimizer: Any
) -> tuple[int, float | None]:
    """Restore what `_save` stored; return the next step and the rate, or 0 and None if there is nothing."""
    stored = resume.load_tensors(name)
    if stored is None:
        return 0, None
    for key, parameter in trained.items():
        parameter.data.copy_(stored[f"{key}/now"])
        moments = {moment: stored[f"{key}/{moment}"] for moment in _MOMENTS}
        optimizer.state[parameter] = {"step": stored["step"].float(), **moments}
    return int(stored["step"]), stored["rate"].item()
