"""Folders that hold data: the one that ATTANGENT_DATA names, or else those the user added."""

import json
import os
from os import PathLike
from pathlib import Path

from attangent._core.errors import AttangentError
from attangent._core.files import real_folder, write_json

VARIABLE = "ATTANGENT_DATA"


def settings_file() -> Path:
    """Where added folders are remembered: data.json in ATTANGENT_CONFIG, or in the user's settings."""
    own = os.environ.get("ATTANGENT_CONFIG")
    if own:
        return Path(own) / "data.json"
    home = os.environ.get("APPDATA") if os.name == "nt" else os.environ.get("XDG_CONFIG_HOME")
    return Path(home or Path.home() / ".config") / "attangent" / "data.json"


def folders() -> tuple[Path, ...]:
    """Where data files are looked for, first to last. ATTANGENT_DATA, where it is set, is the only one."""
    named = os.environ.get(VARIABLE)
    return (Path(named),) if named else added_folders()


def added_folders() -> tuple[Path, ...]:
    """The folders that were added, the last one first."""
    path = settings_file()
    if not path.is_file():
        return ()
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return tuple(Path(folder) for folder in content["folders"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise AttangentError(
            f'{path} cannot be read, expected {{"folders": [...]}}: mend it or remove it'
        ) from None


def add_folder(folder: str | PathLike[str]) -> Path:
    """Remember a folder with data; returned is the file that remembers it."""
    place = Path(folder).expanduser().resolve()
    if not place.is_dir():
        raise AttangentError(f"there is no folder {folder}, expected one that holds data sets")
    path = settings_file()
    kept = [str(place), *(str(one) for one in added_folders() if one != place)]
    real_folder(path.parent)
    write_json(path, {"folders": kept})
    return path


def data_file(name: str) -> Path | None:
    """The file of this name below the first data folder that has it; None where none has."""
    return next((folder / name for folder in folders() if (folder / name).is_file()), None)
