"""Models by name: check that a folder or a Hub id exists, and load it without running its code."""

import re
from os import PathLike
from pathlib import Path
from typing import Any

from attangent._core.errors import AttangentError

_ID = re.compile(r"(?:[A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*")
_TIMEOUT_SECONDS = 5.0


def load_pretrained(auto_class: Any, name: str | PathLike[str], **options: Any) -> Any:
    """Return `auto_class.from_pretrained(name)` and never run Python code that comes with the model.

    Unless told so, transformers asks on standard input whether it may run such code.
    """
    return auto_class.from_pretrained(str(name), trust_remote_code=False, **options)


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
