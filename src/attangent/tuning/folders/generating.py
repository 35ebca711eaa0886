"""A text gone on with by a model that `attangent tune --task causal-lm` tuned. What `generate` calls."""

from pathlib import Path

import torch

from attangent._errors import AttangentError
from attangent.tuning.folders.tuned import load_tuned


def continue_text(
    folder: Path, text: str, tokens: int, temperature: float = 0.0, seed: int = 0, model: str | None = None
) -> str:
    """What the tuned model writes after `text`: its likeliest tokens, or with a temperature drawn ones."""
    tuned = load_tuned(folder, model)
    if tuned.description.kind != "causal-lm":
        raise AttangentError(f"{folder} was tuned for {tuned.description.kind}; use `attangent predict`")
    inputs = tuned.tokenizer(text, return_tensors="pt").to(tuned.model.device)
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
