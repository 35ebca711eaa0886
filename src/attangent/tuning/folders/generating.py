"""Texts by a model that `attangent tune --task causal-lm` tuned. What `generate` and `chat` call."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from attangent._core.errors import AttangentError
from attangent.tuning.folders.tuned import TunedModel, description_of, load_tuned


def continue_text(
    folder: Path, text: str, tokens: int, temperature: float = 0.0, seed: int = 0, model: str | None = None
) -> str:
    """What the tuned model writes after `text`: its likeliest tokens, or with a temperature drawn ones."""
    tuned = _writer(folder, model)
    return _written(tuned, tuned.tokenizer(text, return_tensors="pt"), tokens, temperature, seed)


@dataclass
class TunedChat:
    """Turns of a chat with a tuned model: `say` answers and remembers.

    Turns are written as the tokenizer's chat template has them; where it has none, each on a line of its own.
    """

    tuned: TunedModel
    turns: list[dict[str, str]] = field(default_factory=list)

    @classmethod
    def load(cls, folder: Path, model: str | None = None) -> "TunedChat":
        return cls(_writer(folder, model))

    def say(self, text: str, tokens: int) -> str:
        """The answer to `text`, by the likeliest tokens."""
        self.turns.append({"role": "user", "content": text})
        answer = _written(self.tuned, self._asked(), tokens).strip()
        self.turns.append({"role": "assistant", "content": answer})
        return answer

    def _asked(self) -> Any:
        tokenizer = self.tuned.tokenizer
        if tokenizer.chat_template is None:
            return tokenizer("\n".join(turn["content"] for turn in self.turns) + "\n", return_tensors="pt")
        return tokenizer.apply_chat_template(
            self.turns, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )


def _writer(folder: Path, model: str | None) -> TunedModel:
    kind = description_of(folder).kind
    if kind != "causal-lm":
        raise AttangentError(f"{folder} was tuned for {kind}; use `attangent predict`")
    return load_tuned(folder, model)


def _written(tuned: TunedModel, inputs: Any, tokens: int, temperature: float = 0.0, seed: int = 0) -> str:
    inputs = inputs.to(tuned.model.device)
    drawn = {"do_sample": True, "temperature": temperature} if temperature > 0 else {"do_sample": False}
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        found = tuned.model.generate(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            max_new_tokens=tokens,
            pad_token_id=tuned.tokenizer.pad_token_id,
            **drawn,
        )
    return tuned.tokenizer.decode(found[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
