"""Completions: a term that keeps the model usable elsewhere, the best epoch, exact match, sample answers."""

import json
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from attangent._core.files import write_json, write_whole
from attangent._core.random import generator
from attangent.tuning.encoding import prompt_ids
from attangent.tuning.evaluation import table_csv
from attangent.tuning.loading import model_limit
from attangent.tuning.trainer import is_first_process, put_tensors, trained_tensors, trainer_callback
from attangent.tuning.training import score

if TYPE_CHECKING:
    from attangent.tuning.prepared import PreparedTask

SAMPLES = "samples.csv"
_BEST = "best.safetensors"
_LOSSES = "held_out.json"
# Rows that are answered for the exact match: generation is slow.
_ANSWERED = 40
_SPARE_TOKENS = 4
# Texts that the base model samples, those that are not trained on, and those per step.
_TEXTS = 16
_UNSEEN = 4
_TEXTS_PER_STEP = 4
_TEXT_TOKENS = 64
# Weight of the KL term per token relative to the loss per token.
KL_WEIGHT = 1.0
_CONTENT = "CONTENT"


@dataclass(frozen=True)
class BaseTexts:
    """Texts that the base model sampled, which hold the tuned model near it by KL(base || tuned) per token.

    Attributes:
        ids: Tokens of the texts, after the tokens that every text starts with.
        log_probs: The base model's log-probability of every token at each position, in half precision.
    """

    ids: Int[Tensor, "texts length"]
    log_probs: Float[Tensor, "texts sampled vocabulary"]

    @classmethod
    def sampled(cls, model: Any, task: "PreparedTask", seed: int) -> "BaseTexts":
        """Sample texts: with a chat template, conversations from the start of the user's turn on."""
        start = _start_of_texts(task.tokenizer, task.chat)
        count = min(_TEXT_TOKENS, (model_limit(model) or _TEXT_TOKENS + len(start)) - len(start))
        draw = generator(seed, "texts of the base model")
        ids = torch.tensor(start).repeat(_TEXTS, 1)
        steps = []
        cache = None
        model.eval()
        for _ in range(count):
            inputs = (ids if cache is None else ids[:, -1:]).to(model.device)
            with torch.no_grad():
                output = model(input_ids=inputs, past_key_values=cache, use_cache=True)
            cache = getattr(output, "past_key_values", None)  # without one, every step reads the whole text
            steps.append(output.logits[:, -1].float().log_softmax(-1).cpu())
            ids = torch.cat([ids, steps[-1].exp().multinomial(1, generator=draw)], dim=1)
        return cls(ids, torch.stack(steps, dim=1).half())

    def penalty(self, model: Any, step: int) -> Tensor:
        """Return the weighted KL term of the texts whose turn it is."""
        first = step * _TEXTS_PER_STEP % (_TEXTS - _UNSEEN)
        rows = slice(first, first + _TEXTS_PER_STEP)
        tuned = self._tuned(model, rows)
        base = self.log_probs[rows].to(tuned)
        return KL_WEIGHT * F.kl_div(tuned, base, log_target=True, reduction="none").sum(-1).mean()

    def perplexity_ratio(self, model: Any) -> float:
        """Return the perplexity of the texts that were not trained on, relative to the base model's."""
        rows = slice(_TEXTS - _UNSEEN, _TEXTS)
        with torch.no_grad():
            tuned = self._tuned(model.eval(), rows).cpu()
        tokens = self.ids[rows, -tuned.shape[1] :].unsqueeze(-1)
        return float((self.log_probs[rows].float() - tuned).gather(-1, tokens).mean().exp())

    def _tuned(self, model: Any, rows: slice) -> Float[Tensor, "texts sampled vocabulary"]:
        ids = self.ids[rows].to(next(model.parameters()).device)
        logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
        # A prefix of peft adds positions on the left.
        return logits[:, -self.log_probs.shape[1] - 1 : -1].float().log_softmax(-1)


def _start_of_texts(tokenizer: Any, chat: bool) -> list[int]:
    """Return the tokens in front of the user's first word, or those that start a text."""
    if chat:
        turn = [{"role": "user", "content": _CONTENT}]
        text = tokenizer.apply_chat_template(turn, tokenize=False).partition(_CONTENT)[0]
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    else:
        ids = prompt_ids("", tokenizer, chat)
    return ids or [tokenizer.pad_token_id if tokenizer.eos_token_id is None else tokenizer.eos_token_id]


class BestEpoch:
    """Held-out loss after each epoch; the weights of the best epoch are kept in the run's folder.

    Args:
        folder: Folder of the checkpoints.
        rows: Encoded rows to score on.
    """

    def __init__(self, folder: Path, rows: Any):
        self.folder = folder
        self.rows = rows
        path = folder / _LOSSES
        self.losses: list[float] = json.loads(path.read_text()) if path.is_file() else []

    def watch(self, trainer: Any) -> None:
        """Score the trainer's model after each epoch."""
        watched = weakref.ref(trainer)  # a cycle would keep the process group alive at exit

        def on_epoch_end(args: Any, state: Any, control: Any, **_: Any) -> None:
            self._add(watched(), round(state.epoch))

        trainer.add_callback(trainer_callback(on_epoch_end=on_epoch_end))

    def _add(self, trainer: Any, epoch: int) -> None:
        from safetensors.torch import save_file

        loss = score(trainer, self.rows, "causal-lm")["loss"]
        del self.losses[epoch - 1 :]  # a resumed run repeats its last epoch
        self.losses.append(loss)
        if is_first_process():
            self.folder.mkdir(parents=True, exist_ok=True)
            if loss <= min(self.losses):
                tensors = trained_tensors(trainer.accelerator.unwrap_model(trainer.model))
                save_file(tensors, self.folder / _BEST)
            write_json(self.folder / _LOSSES, self.losses)
        trainer.accelerator.wait_for_everyone()

    @property
    def best(self) -> int:
        """The number of epochs after which the loss was lowest; 0 if no epoch was complete."""
        return self.losses.index(min(self.losses)) + 1 if self.losses else 0

    def restore(self, trainer: Any) -> dict[str, Any]:
        """Go back to the best epoch, and return the losses and its number."""
        from safetensors.torch import load_file

        if 0 < self.best < len(self.losses):
            put_tensors(trainer.accelerator.unwrap_model(trainer.model), load_file(self.folder / _BEST))
        trainer.accelerator.wait_for_everyone()
        if is_first_process():
            for name in (_BEST, _LOSSES):
                (self.folder / name).unlink(missing_ok=True)
        return {"held_out_losses": self.losses, "best_epoch": self.best}


def answer_rows(model: Any, task: "PreparedTask") -> dict[str, Any]:
    """Answer held-out prompts with the most likely tokens; return the exact match and the answers."""
    pairs = [pair for pair in task.held if pair.prompt][:_ANSWERED]
    if not pairs:
        return {}
    answers = [_answer(model, task, pair) for pair in pairs]
    hits = sum(answer == pair.text.strip() for answer, pair in zip(answers, pairs, strict=True))
    rows = [[pair.prompt, pair.text.strip(), answer] for pair, answer in zip(pairs, answers, strict=True)]
    return {"eval_exact_match": hits / len(pairs), "rows_answered": len(pairs), "samples": rows}


def _answer(model: Any, task: "PreparedTask", pair: Any) -> str:
    tokenizer = task.tokenizer
    ids = torch.tensor([prompt_ids(pair.prompt, tokenizer, task.chat)], device=model.device)
    length = len(tokenizer(pair.text, add_special_tokens=False)["input_ids"]) + _SPARE_TOKENS
    with torch.no_grad():
        output = model.eval().generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=length,
            do_sample=False,
            pad_token_id=tokenizer.pad_token_id,
        )
    return tokenizer.decode(output[0, ids.shape[1] :].tolist(), skip_special_tokens=True).strip()


def write_samples(folder: Path, rows: Sequence[Sequence[str]]) -> None:
    """Write prompts, expected completions and answers."""
    write_whole(folder / SAMPLES, table_csv(["prompt", "completion", "answer"], rows))
