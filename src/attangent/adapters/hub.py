"""Names of models: a folder here, or an id on the hub, found out before anything is loaded."""

import re
from os import PathLike
from pathlib import Path

from attangent._core.errors import AttangentError

_ID = re.compile(r"(?:[A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*")
_SECONDS = 5.0


def check_model_name(name: str | PathLike[str], file: str = "config.json") -> None:
    """Refuse what is neither a folder, nor in the local cache of the hub, nor on the hub itself.

    The hub is asked once and for at most five seconds: transformers itself tries for a minute. `file` is what
    the cache must hold of the model.
    """
    text = str(name)
    if text and Path(text).is_dir():
        return
    if not _ID.fullmatch(text) or ".." in text or Path(text).exists():
        raise AttangentError(f"there is no folder {text}, expected a model's folder or a hub id (owner/name)")
    if not _is_cached(text, file):
        _ask_the_hub(text)


def _is_cached(name: str, file: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(name, file), str)


def _ask_the_hub(name: str) -> None:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    reason = "the hub has no model of this name that you may read"
    try:
        HfApi().model_info(name, timeout=_SECONDS)
    except HfHubHTTPError:
        pass
    except OfflineModeIsEnabled:
        reason = "HF_HUB_OFFLINE is set and the model is not in the local cache"
    except Exception as error:  # the client's own errors differ between its versions
        reason = f"the hub could not be reached ({error})"
    else:
        return
    raise AttangentError(
        f"{name} is no folder here, and as a hub id it cannot be had: {reason}; check the spelling or give "
        "a folder"
    )
