"""Adapters, compressed prompts and tuned models on the hub: pushed as one commit, fetched by name."""

import json
from os import PathLike
from pathlib import Path
from typing import Any

from attangent._core.errors import AttangentError
from attangent._core.gate import checked
from attangent._core.settings import read_json
from attangent.adapters.files.format import CARD, CONFIG, WEIGHTS
from attangent.adapters.hub import check_model_name

TUNED = "tuned.json"
_NAMES_BASE = {CONFIG: "base_model_name_or_path", TUNED: "base_model"}
_PATTERNS = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja", CARD)
_PLACE = "PATH_OR_HUB_ID"


@checked
def push_to_hub(
    folder: str | PathLike[str],
    repo: str,
    *,
    base_model: str | None = None,
    private: bool = False,
    token: str | None = None,
    message: str = "Add adapter",
) -> str:
    """Put a folder that `save_adapter`, `compress` or `tune` wrote on the hub as `repo` (owner/name).

    The files go up as one commit, with the model card, which names the repository instead of your folder.
    `base_model` is the hub id of the base model; it must be given where the folder names one of your disk.
    The address is returned. `token` is that of the hub's own client where it is not given.

        attangent.push_to_hub("my-adapter", "me/my-adapter", base_model="openai-community/gpt2")
    """
    place = _place_of(Path(folder))
    files = _contents(place, repo, base_model)
    from huggingface_hub import CommitOperationAdd, HfApi

    api = HfApi(token=token)
    try:
        address = api.create_repo(repo, private=private, exist_ok=True)
        added = [CommitOperationAdd(path_in_repo=name, path_or_fileobj=data) for name, data in files.items()]
        api.create_commit(repo, added, commit_message=message)
    except Exception as error:  # the client's own errors differ between its versions
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise AttangentError(
            f"{place} could not be pushed to {repo}: {first}; check the name and that you are logged in "
            "(hf auth login)"
        ) from error
    return str(address)


def fetch_folder(name: str, file: str) -> Path:
    """A folder with what the hub has under this name, which must hold `file`; asked for by name only."""
    check_model_name(name, file)
    from huggingface_hub import snapshot_download

    try:
        found = Path(snapshot_download(name, allow_patterns=list(_PATTERNS)))
    except Exception as error:
        raise AttangentError(f"{name} could not be had from the hub: {error}") from None
    if not (found / file).is_file():
        raise AttangentError(f"{name} on the hub holds no {file}, expected what `push_to_hub` put there")
    return found


def _place_of(folder: Path) -> Path:
    """The folder that holds the weights: this one, or the only one below it."""
    if (folder / CONFIG).is_file() or (folder / TUNED).is_file():
        return folder
    below = sorted(path.parent for path in folder.glob(f"**/{TUNED}") if "checkpoint" not in str(path))
    below = below or sorted(path.parent for path in folder.glob(f"*/{CONFIG}"))
    if len(below) == 1:
        return below[0]
    more = f"; choose one of {', '.join(map(str, below[:4]))}" if below else ""
    raise AttangentError(
        f"{folder} holds no adapter, expected one that save_adapter, `attangent compress` or "
        f"`attangent tune` wrote{more}"
    )


def _contents(place: Path, repo: str, base_model: str | None) -> dict[str, bytes]:
    """What goes up, by name: nothing hidden, no link, no folder of yours named in it."""
    names = {str(path.relative_to(place)) for pattern in _PATTERNS for path in place.rglob(pattern)}
    files = {name: (place / name).read_bytes() for name in sorted(names) if _goes_up(place, Path(name))}
    if not any(name.endswith(".safetensors") for name in files):
        raise AttangentError(f"{place} has no {WEIGHTS}, expected the weights beside the other files")
    said = _base_model(place)
    if base_model is None and said and Path(said).exists():
        raise AttangentError(
            f"the base model of {place} is the folder {said}, which nobody else has: give its name on the "
            "hub as base_model="
        )
    for name in files:
        key = _NAMES_BASE.get(Path(name).name)
        if key is not None and base_model is not None:
            files[name] = _with(json.loads(files[name]), key, base_model)
    files[CARD] = _card(files.get(CARD, b"").decode(), place, repo, said, base_model).encode()
    return files


def _goes_up(place: Path, name: Path) -> bool:
    """Plain files that are not hidden, but for those of checkpoints."""
    hidden = any(part.startswith((".", "checkpoint")) for part in name.parts)
    links = any((place / part).is_symlink() for part in (name, *name.parents))
    return (place / name).is_file() and not hidden and not links


def _base_model(place: Path) -> str:
    for name, key in _NAMES_BASE.items():
        if (place / name).is_file():
            return str(read_json(place / name).get(key) or "")
    return ""


def _with(content: dict[str, Any], key: str, value: str) -> bytes:
    return (json.dumps({**content, key: value}, indent=2) + "\n").encode()


def _card(text: str, place: Path, repo: str, said: str, base_model: str | None) -> str:
    """The model card with the repository's name where yours stood; a short one where there is none."""
    text = text or f"---\nlibrary_name: attangent\nbase_model: {said or 'unknown'}\n---\n\n# {repo}\n"
    if base_model and said:
        text = text.replace(said, base_model)
    return text.replace(_PLACE, repo).replace(str(place), repo)
