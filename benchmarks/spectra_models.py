"""What edits of the spectrum do to SmolLM2-135M and MiniLM: their outputs, their size on disk, and a search.

    python -m benchmarks.spectra_models [minilm] [smollm2] [search]

writes `benchmarks/spectra_models.json`. Effects are on passages of BoolQ; the search is LASER's, by the mean
log-probability of the answers to CounterFact prompts, chosen on 40 and judged on 80 others. Needs the
packages that carry the models (benchmarks/bench_compress.py, benchmarks/accuracy_data.py) and ATTANGENT_DATA.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from attangent._core.files import write_json
from attangent.papers.p3_two_stage.facts.corpus import Example
from attangent.papers.p3_two_stage.facts.counterfact import load_counterfact
from attangent.papers.p3_two_stage.spectrum_edit import edit_spectrum
from attangent.stages import measure_effect, search_spectrum
from benchmarks.accuracy_data import minilm
from benchmarks.bench_compress import smollm2
from benchmarks.prose import passages

PLACE = Path(__file__).with_name("spectra_models.json")
EDITS: dict[str, tuple[list[str], float, slice]] = {
    "q, k of all layers": (["q", "k"], 0.25, slice(None)),
    "v, o of all layers": (["v", "o"], 0.25, slice(None)),
    "mlp of the first layer": (["mlp"], 0.1, slice(1)),
    "mlp of the last layer": (["mlp"], 0.1, slice(-1, None)),
    "mlp of the last six layers": (["mlp"], 0.25, slice(-6, None)),
}
"""Targets, the share of their singular values that stays, and the layers."""
TEXTS = 6


def load_minilm() -> tuple[Any, Any]:
    from transformers import AutoModel, AutoTokenizer

    return AutoModel.from_pretrained(minilm()).eval(), AutoTokenizer.from_pretrained(minilm())


def effects(name: str, model: Any, tokenizer: Any) -> list[dict[str, Any]]:
    """The edits one by one: how far norms and outputs move, and what the copies weigh."""
    layers, rows = range(model.config.num_hidden_layers), []
    for what, (targets, rho, places) in EDITS.items():
        edit = edit_spectrum(model, "largest", rho=rho, targets=targets, layers=layers[places])
        found = measure_effect(edit, tokenizer, [text[:600] for text in passages()[:TEXTS]])
        with tempfile.TemporaryDirectory() as folder:
            report = edit.save_factors(folder, tokenizer)
            factors = size(Path(folder))
        row = {
            "model": name,
            "edit": f"{what}: {rho:.0%} of the values",
            "relative_change": round(report.by_layer()["relative_change"].mean(), 4),
            "cosine": round(found.cosine, 4),
            "kl": round(found.kl, 4),
            "loss_before": round(found.loss_before, 4),
            "loss_after": round(found.loss_after, 4),
            "megabytes_whole": round(sum(p.nbytes for p in model.parameters()) / 1e6, 1),
            "megabytes_factors": round(factors / 1e6, 1),
        }
        rows.append({name: value for name, value in row.items() if value == value})  # an encoder has no loss
        print(rows[-1], flush=True)
    return rows


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))


def answers(tokenizer: Any, examples: list[Example]) -> Callable[[Any], float]:
    """The mean log-probability of the first token of each answer."""
    prompts = [tokenizer(example.prompt, return_tensors="pt")["input_ids"] for example in examples]
    firsts = [tokenizer(" " + example.answer)["input_ids"][0] for example in examples]

    @torch.no_grad()
    def metric(model: Any) -> float:
        logs = [
            model(ids).logits[0, -1].log_softmax(-1)[first]
            for ids, first in zip(prompts, firsts, strict=True)
        ]
        return torch.stack(logs).mean().item()

    return metric


def search(model: Any, tokenizer: Any) -> dict[str, Any]:
    """The last four layers' mlp, two shares each."""
    file = Path(os.environ["ATTANGENT_DATA"], "counterfact/counterfact-val.json.gz")
    examples = list(load_counterfact(file, 120, held_out=1.0, least=1).training)
    validate, test = answers(tokenizer, examples[:40]), answers(tokenizer, examples[40:])
    layers = range(model.config.num_hidden_layers)[-4:]
    start = time.process_time()
    found = search_spectrum(
        model, validate, test, targets=["mlp"], layers=layers, rhos=(0.1, 0.02), quiet=True
    )
    row = {
        "tried": json.loads(str(found.tried.to_json(orient="records", double_precision=4))),
        "validation_before": round(found.validation_before, 4),
        "test_before": round(found.test_before, 4),
        "test_after": round(found.test_after, 4),
        "seconds": round(time.process_time() - start),
    }
    print(row, flush=True)
    return row


PARTS: dict[str, Callable[[], Any]] = {
    "minilm": lambda: effects("MiniLM", *load_minilm()),
    "smollm2": lambda: effects("SmolLM2", *smollm2()),
    "search": lambda: search(*smollm2()),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), choices=list(PARTS))
    for part in parser.parse_args().parts:
        found = PARTS[part]()
        before = json.loads(PLACE.read_text()) if PLACE.exists() else {}
        write_json(PLACE, {**before, part: found})


if __name__ == "__main__":
    main()
