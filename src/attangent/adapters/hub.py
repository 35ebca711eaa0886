"""The Hugging Face Hub: check model names, load models without running their code, share folders."""

import json
import re
from os import PathLike
from pathlib import Path
from typing import Any

from attangent._core.errors import AttangentError, loading
from attangent._core.files import read_json
from attangent.adapters.files.format import CARD, CONFIG, WEIGHTS

_ID = re.compile(r"(?:[A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*")
_TIMEOUT_SECONDS = 5.0
TUNED = "tuned.json"
_BASE_MODEL_KEYS = {CONFIG: "base_model_name_or_path", TUNED: "base_model"}
_PATTERNS = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja", CARD)
_PLACEHOLDER = "PATH_OR_HUB_ID"


def load_pretrained(auto_class: Any, name: str | PathLike[str], **options: Any) -> Any:
    """Return `auto_class.from_pretrained(name)` and never run Python code that comes with the model.

    Unless told so, transformers asks on standard input whether it may run such code.
    """
    return auto_class.from_pretrained(str(name), trust_remote_code=False, **options)


def load_causal_lm(model: str) -> tuple[Any, Any]:
    """Load a frozen causal language model in float32 and its tokenizer.

    Raises:
        AttangentError: If there is none of this name, or weights are missing.
    """
    check_model_name(model)
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    before = logging.get_verbosity()
    logging.set_verbosity_error()  # the error below says it in one line
    try:
        with loading(f"cannot load a causal language model with a tokenizer from {model}"):
            tokenizer = load_pretrained(AutoTokenizer, model)
            options: dict[str, Any] = {"dtype": torch.float32, "output_loading_info": True}
            loaded: Any = load_pretrained(AutoModelForCausalLM, model, **options)
            network, about = loaded
    finally:
        logging.set_verbosity(before)
    if about["missing_keys"]:
        raise AttangentError(
            f"{model} holds no causal language model: {sorted(about['missing_keys'])[0]} and "
            f"{len(about['missing_keys']) - 1} more weights are missing; pass a model that writes text, not "
            "an encoder"
        )
    return network.eval().requires_grad_(False), tokenizer


def check_model_name(name: str | PathLike[str], file: str = "config.json") -> None:
    """Check that a model is a local folder, in the Hub's local cache or on the Hub.

    The Hub is asked once and for at most five seconds; transformers itself would retry for a minute.

    Args:
        name: A folder or a Hub id (`owner/name`).
        file: A file that the cached copy of the model must have.

    Raises:
        AttangentError: If the model is in none of these places.
    """
    text = str(name)
    if text and Path(text).is_dir():
        return
    if not _ID.fullmatch(text) or ".." in text or Path(text).exists():
        raise AttangentError(f"there is no folder {text}; pass a model's folder or a Hub id (owner/name)")
    if not _is_cached(text, file):
        _check_on_hub(text)


def _is_cached(name: str, file: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(name, file), str)


def _check_on_hub(name: str) -> None:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    reason = "the Hub has no model of this name that you may read"
    try:
        HfApi().model_info(name, timeout=_TIMEOUT_SECONDS)
    except HfHubHTTPError:
        pass
    except OfflineModeIsEnabled:
        reason = "HF_HUB_OFFLINE is set and the model is not in the local cache"
    except Exception as error:  # the client's own errors differ between its versions
        reason = f"the Hub could not be reached ({error})"
    else:
        return
    raise AttangentError(
        f"{name} is neither a local folder nor a model on the Hub: {reason}; check the spelling or pass a "
        "folder"
    )


def push_to_hub(
    folder: str | PathLike[str],
    repo: str,
    *,
    base_model: str | None = None,
    private: bool = False,
    token: str | None = None,
    message: str = "Add adapter",
) -> str:
    """Upload a folder that `save_adapter`, `compress` or `tune` wrote, as one commit with its model card.

    Args:
        folder: The folder to upload.
        repo: The Hub id to upload to (`owner/name`); it is created if missing.
        base_model: The Hub id of the base model; required if the folder names a local base model.
        private: Create a private repository.
        token: An access token; by default the one of `hf auth login`.
        message: The commit message.

    Returns:
        The URL of the repository.

    Raises:
        AttangentError: If the folder has no adapter or the upload fails.

    Example:
        >>> push_to_hub("no such folder", "me/my-adapter")
        Traceback (most recent call last):
        attangent._core.errors.AttangentError: no such folder has no adapter; pass a folder that ...
    """
    source = _adapter_folder(Path(folder))
    files = _contents(source, repo, base_model)
    from huggingface_hub import CommitOperationAdd, HfApi

    api = HfApi(token=token)
    try:
        address = api.create_repo(repo, private=private, exist_ok=True)
        added = [CommitOperationAdd(path_in_repo=name, path_or_fileobj=data) for name, data in files.items()]
        api.create_commit(repo, added, commit_message=message)
    except Exception as error:  # the client's own errors differ between its versions
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise AttangentError(
            f"{source} could not be uploaded to {repo}: {reason}; check the name and that you are logged in "
            "(hf auth login)"
        ) from error
    return str(address)


def fetch_folder(name: str, file: str) -> Path:
    """Download a Hub repository that has `file` and return its local folder."""
    check_model_name(name, file)
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(name, allow_patterns=list(_PATTERNS)))
    except Exception as error:
        raise AttangentError(f"{name} could not be downloaded from the Hub: {error}") from None
    if not (folder / file).is_file():
        raise AttangentError(f"{name} on the Hub has no {file}, expected a repository of `push_to_hub`")
    return folder


def _adapter_folder(folder: Path) -> Path:
    """Return the folder with the weights: this one, or the only one below it."""
    if (folder / CONFIG).is_file() or (folder / TUNED).is_file():
        return folder
    below = sorted(path.parent for path in folder.glob(f"**/{TUNED}") if "checkpoint" not in str(path))
    below = below or sorted(path.parent for path in folder.glob(f"*/{CONFIG}"))
    if len(below) == 1:
        return below[0]
    choices = f": choose one of {', '.join(map(str, below[:4]))}" if below else ""
    raise AttangentError(
        f"{folder} has no adapter; pass a folder that save_adapter, `attangent compress` or "
        f"`attangent tune` wrote{choices}"
    )


def _contents(folder: Path, repo: str, base_model: str | None) -> dict[str, bytes]:
    """Return the files to upload by name, without hidden files, links or the names of local folders."""
    names = {str(path.relative_to(folder)) for pattern in _PATTERNS for path in folder.rglob(pattern)}
    files = {name: (folder / name).read_bytes() for name in sorted(names) if _is_shared(folder, Path(name))}
    if not any(name.endswith(".safetensors") for name in files):
        raise AttangentError(f"{folder} has no {WEIGHTS}, expected weights with the other files")
    local = _base_model(folder)
    if base_model is None and local and Path(local).exists():
        raise AttangentError(
            f"the base model of {folder} is the local folder {local}, which others do not have: pass its Hub "
            "id as base_model="
        )
    for name in files:
        key = _BASE_MODEL_KEYS.get(Path(name).name)
        if key is not None and base_model is not None:
            content = {**json.loads(files[name]), key: base_model}
            files[name] = (json.dumps(content, indent=2) + "\n").encode()
    files[CARD] = _card(files.get(CARD, b"").decode(), folder, repo, local, base_model).encode()
    return files


def _is_shared(folder: Path, name: Path) -> bool:
    """Return whether a file is plain, not hidden and not part of a checkpoint."""
    hidden = any(part.startswith((".", "checkpoint")) for part in name.parts)
    links = any((folder / part).is_symlink() for part in (name, *name.parents))
    return (folder / name).is_file() and not hidden and not links


def _base_model(folder: Path) -> str:
    for name, key in _BASE_MODEL_KEYS.items():
        if (folder / name).is_file():
            return str(read_json(folder / name).get(key) or "")
    return ""


def _card(text: str, folder: Path, repo: str, local: str, base_model: str | None) -> str:
    """Return the model card with Hub ids instead of local folders; a short one if there is none."""
    text = text or f"---\nlibrary_name: attangent\nbase_model: {local or 'unknown'}\n---\n\n# {repo}\n"
    if base_model and local:
        text = text.replace(local, base_model)
    return text.replace(_PLACEHOLDER, repo).replace(str(folder), repo)
