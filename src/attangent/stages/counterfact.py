"""CounterFact in the layout of EasyEdit: one record a fact with a prompt, a paraphrase and two answers."""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from attangent._errors import AttangentError
from attangent._random import generator
from attangent.stages.corpus import Fact, FactCorpus

_NEEDED = ("prompt", "subject", "ground_truth", "target_new", "rephrase_prompt")


def load_counterfact(
    paths: str | Path | Iterable[str | Path],
    facts: int | None = None,
    held_out: float = 0.2,
    least: int = 20,
    seed: int = 0,
) -> FactCorpus:
    """True facts of CounterFact from JSON files (also .gz): `facts` of them drawn by seed, or all.

    The type of a fact is the wording of its prompt without the subject; its answers are all those (true or
    false) that the files give for that wording, in at least `least` records. A fact is trained on its prompt
    and its paraphrase; for the share `held_out` of the facts the paraphrase is held out instead.
    """
    if not 0 <= held_out <= 1:
        raise AttangentError(f"held_out is {held_out}, expected a share between 0 and 1")
    records = _by_wording(read_json(paths, _NEEDED))
    frequent = {wording: found for wording, found in records.items() if len(found) >= least}
    types = {
        wording: tuple(sorted({found[key] for found in all_of_it for key in ("ground_truth", "target_new")}))
        for wording, all_of_it in frequent.items()
    }
    every = [(wording, record) for wording, found in frequent.items() for record in found]
    wanted = len(every) if facts is None else facts
    if not 1 <= wanted <= len(every):
        raise AttangentError(f"{wanted} facts were asked for, the files hold 1 to {len(every)} usable ones")
    random = generator(seed, "facts of counterfact")
    drawn = torch.randperm(len(every), generator=random)[:wanted].tolist()
    apart = int(held_out * wanted)
    chosen = tuple(_fact(*every[place], apart=number < apart) for number, place in enumerate(drawn))
    used = {fact.type for fact in chosen}
    return FactCorpus(chosen, {name: types[name] for name in types if name in used}, "CounterFact")


def read_json(paths: str | Path | Iterable[str | Path], needed: Iterable[str]) -> list[dict[str, Any]]:
    """Records of one or more JSON or JSON-lines files, each with the fields that are needed."""
    files = [paths] if isinstance(paths, str | Path) else list(paths)
    records = [record for path in files for record in _records(Path(path))]
    for number, record in enumerate(records):
        missing = [name for name in needed if name not in record]
        if missing:
            raise AttangentError(f"record {number} lacks {', '.join(missing)}, it has {', '.join(record)}")
    return records


def _records(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        raise AttangentError(f"there is no file {path}")
    text = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
    try:
        if text.lstrip().startswith("["):
            return json.loads(text)
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except json.JSONDecodeError as error:
        raise AttangentError(f"{path} is not JSON: {error}; expected a list or one record a line") from error


def _by_wording(records: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Records by their prompt without the subject; a prompt that comes twice counts once."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for record in records:
        if record["subject"] in record["prompt"]:
            wording = record["prompt"].replace(record["subject"], "{}", 1)
            found.setdefault(wording, {}).setdefault(record["prompt"], record)
    return {wording: list(prompts.values()) for wording, prompts in found.items()}


def _fact(wording: str, record: dict[str, Any], *, apart: bool) -> Fact:
    prompt, paraphrase = record["prompt"], _own_sentence(record["rephrase_prompt"], record["subject"])
    return Fact(
        subject=record["subject"],
        type=wording,
        answer=record["ground_truth"],
        prompts=(prompt,) if apart else (prompt, paraphrase),
        held_out=(paraphrase,) if apart else (),
    )


def _own_sentence(paraphrase: str, subject: str) -> str:
    """The paraphrase without the unrelated sentence that CounterFact puts before it."""
    before, found, after = paraphrase.rpartition(subject)
    return before.rpartition(". ")[2] + found + after
