"""CounterFact in the layout of EasyEdit: one record a fact with a prompt, a paraphrase and two answers."""

import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.papers.p3_two_stage.facts.corpus import Example, FactCorpus

_NEEDED = ("prompt", "subject", "ground_truth", "target_new", "rephrase_prompt")


def load_counterfact(
    paths: str | Path | Iterable[str | Path],
    facts: int | None = None,
    held_out: float = 0.2,
    least: int = 20,
    seed: int = 0,
) -> FactCorpus:
    """True facts of CounterFact from JSON files (also .gz): `facts` of them drawn by seed, or all.

    A fact is trained on its prompt and its paraphrase; for the share `held_out` of the facts the paraphrase
    is held out instead. The type of a prompt is its wording without the subject, and its answers are all that
    the files give for that wording, true or false; wordings with fewer than `least` records are left out.
    """
    if not 0 <= held_out <= 1:
        raise AttangentError(f"held_out is {held_out}, expected a share between 0 and 1")
    worded = [_worded(record) for record in _once(read_json(paths, _NEEDED))]
    types = _types(worded, least)
    usable = [fact for fact in worded if fact[0].wording in types]
    wanted = len(usable) if facts is None else facts
    if not 1 <= wanted <= len(usable):
        raise AttangentError(f"{wanted} facts were asked for, the files hold 1 to {len(usable)} usable ones")
    drawn = torch.randperm(len(usable), generator=generator(seed, "facts of counterfact"))[:wanted].tolist()
    prompts = [usable[place][0] for place in drawn]
    paraphrases = [usable[place][1] for place in drawn]
    apart = int(held_out * wanted)
    return FactCorpus(
        training=_examples(prompts + paraphrases[apart:], types),
        held_out=_examples(paraphrases[:apart], types),
        types=types,
        source="CounterFact",
    )


@dataclass(frozen=True)
class _Worded:
    prompt: str
    wording: str
    true: str
    false: str


def _once(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records whose prompt names the subject, each prompt once."""
    named = [record for record in records if record["subject"] in record["prompt"]]
    return list({record["prompt"]: record for record in reversed(named)}.values())[::-1]


def _worded(record: dict[str, Any]) -> tuple[_Worded, _Worded]:
    """The prompt of a record and its paraphrase."""
    subject, answers = record["subject"], (record["ground_truth"], record["target_new"])
    prompts = record["prompt"], _own_sentence(record["rephrase_prompt"], subject)
    first, second = (_Worded(prompt, prompt.replace(subject, "{}", 1), *answers) for prompt in prompts)
    return first, second


def _own_sentence(paraphrase: str, subject: str) -> str:
    """The paraphrase without the unrelated sentence that CounterFact puts before it."""
    before, found, after = paraphrase.rpartition(subject)
    return before.rpartition(". ")[2] + found + after


def _types(worded: list[tuple[_Worded, _Worded]], least: int) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[_Worded]] = {}
    for prompt in (prompt for fact in worded for prompt in fact):
        found.setdefault(prompt.wording, []).append(prompt)
    return {
        wording: tuple(sorted({answer for prompt in prompts for answer in (prompt.true, prompt.false)}))
        for wording, prompts in found.items()
        if len(prompts) >= least
    }


def _examples(prompts: list[_Worded], types: dict[str, tuple[str, ...]]) -> tuple[Example, ...]:
    return tuple(
        Example(prompt.prompt, prompt.true, prompt.wording) for prompt in prompts if prompt.wording in types
    )


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
