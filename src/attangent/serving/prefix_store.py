"""Prefixes that were compressed over HTTP, in a folder that survives a restart.

    STORE/ID/request.json    the text and how to compress it
    STORE/ID/prefix/         the folder that `compress` writes; complete once it has a report
    STORE/ID/failed.json     why it failed

ID is a digest of the model, the text and the request: no word of a request becomes part of a path.
"""

import hashlib
import json
import logging
import re
import shutil
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from attangent._core.files import read_json, real_folder, remove_leftovers, write_json
from attangent.compression.entry import REPORT
from attangent.compression.prompt import fingerprint
from attangent.serving.protocol import ApiError, PrefixRequest

PREFIX = "prefix"
REQUEST = "request.json"
_FAILED = "failed.json"
_ID = re.compile(r"px-[0-9a-f]{24}")
_MOST_PREFIXES = 256
_SAMPLE = 64
_log = logging.getLogger("attangent.serving")
Status = Literal["waiting", "compressing", "ready", "failed"]


@dataclass(frozen=True)
class StoredPrefix:
    """A prefix and the state of its compression.

    Attributes:
        id: Digest of the model, the text and the request.
        name: Name under which it is served.
        request: The text and how to compress it.
        created: Time in seconds since 1970.
        status: `waiting`, `compressing`, `ready` or `failed`.
        stage: The current step of the compression.
        done: Work done in this step.
        total: Work of this step.
        curve: Answers kept and asked by size.
        report: What `compress` reports; None until it is ready.
        error: Why it failed.
    """

    id: str
    name: str
    request: PrefixRequest
    created: int = field(default_factory=lambda: int(time.time()))
    status: Status = "waiting"
    stage: str = ""
    done: int = 0
    total: int = 0
    curve: dict[int, tuple[int, int]] = field(default_factory=dict)
    report: dict[str, Any] | None = None
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the prefix as the API shows it, without its text."""
        about = {key: getattr(self, key) for key in ("id", "name", "created", "status", "error")}
        points = [
            {"size": size, "kept": kept, "asked": asked} for size, (kept, asked) in sorted(self.curve.items())
        ]
        return {
            "object": "prefix",
            **about,
            "keep": self.request.keep,
            "size": self.request.size,
            "characters": len(self.request.text),
            "progress": {"stage": self.stage, "done": self.done, "total": self.total},
            "curve": points,
            "result": None if self.report is None else _summary(self.report),
        }


def _summary(report: dict[str, Any]) -> dict[str, Any]:
    goal = report.get("goal") or {}
    return {
        "prompt_tokens": report["prompt_tokens"],
        "size": report["size"],
        "kept": report["kept"],
        "asked": report["asked"],
        "met": goal.get("met"),
        "full_bytes": report["bytes_of_cache"],
        "prefix_bytes": report["bytes_of_states"],
    }


class PrefixStore:
    """The prefixes of one model in a folder.

    Args:
        folder: The folder; created if missing.
        fingerprint: Digest of the model. Prefixes of other models in the folder are left alone.
    """

    def __init__(self, folder: Path, fingerprint: str):
        self.folder = real_folder(folder)
        self.fingerprint = fingerprint
        self._lock = threading.Lock()
        self._prefixes: dict[str, StoredPrefix] = {}
        for path in sorted(folder.iterdir()):
            if path.is_dir() and not path.is_symlink() and _ID.fullmatch(path.name):
                self._load(path)

    def _load(self, path: Path) -> None:
        remove_leftovers(path)
        if not (path / REQUEST).is_file():
            shutil.rmtree(path, ignore_errors=True)  # killed before the request was written
            return
        try:
            stored = read_json(path / REQUEST)
            if stored.get("fingerprint") == self.fingerprint:
                request = PrefixRequest.model_validate(stored["request"])
                prefix = StoredPrefix(path.name, stored["name"], request, stored["created"])
                self._prefixes[path.name] = self._with_result(prefix)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            _log.warning("%s is damaged and is left out: %s", path, error)

    def _with_result(self, prefix: StoredPrefix) -> StoredPrefix:
        """Return the prefix with what its folder holds."""
        report = self.prefix_folder(prefix.id) / REPORT
        failed = self.folder / prefix.id / _FAILED
        if report.is_file():
            content = read_json(report)
            attempts = (content.get("goal") or {}).get("attempts") or []
            curve = {each["size"]: (each["kept"], each["asked"]) for each in attempts if each["asked"]}
            return replace(prefix, status="ready", report=content, curve=curve)
        if failed.is_file():
            return replace(prefix, status="failed", error=read_json(failed)["error"])
        return prefix

    def prefix_folder(self, id: str) -> Path:
        """Return the folder that `compress` writes."""
        return self.folder / id / PREFIX

    def all(self) -> list[StoredPrefix]:
        """Return all prefixes, the oldest first."""
        return sorted(self._prefixes.values(), key=lambda prefix: prefix.created)

    def get(self, name: str) -> StoredPrefix:
        """Return the prefix of this id or name.

        Raises:
            ApiError: If there is none.
        """
        for prefix in list(self._prefixes.values()):
            if name in (prefix.id, prefix.name):
                return prefix
        raise ApiError(404, f"there is no prefix {name!r:.80}; GET /v1/prefixes lists them", code="not_found")

    def add(self, request: PrefixRequest) -> tuple[StoredPrefix, bool]:
        """Return the prefix of this request, and whether it is new or failed before and must be compressed.

        Raises:
            ApiError: If the name is taken or there are too many prefixes.
        """
        id = self._id(request)
        with self._lock:
            known = self._prefixes.get(id)
            if known is not None and known.status != "failed":
                return known, False
            self._check_new(request, id)
            prefix = StoredPrefix(id, request.name or id, request)
            folder = real_folder(self.folder / id)
            (folder / _FAILED).unlink(missing_ok=True)
            content = {"name": prefix.name, "created": prefix.created, "fingerprint": self.fingerprint}
            write_json(folder / REQUEST, {**content, "request": request.model_dump()})
            self._prefixes[id] = prefix
            return prefix, True

    def _check_new(self, request: PrefixRequest, id: str) -> None:
        name = request.name or id
        if any(name in (other.name, other.id) for other in self._prefixes.values() if other.id != id):
            raise ApiError(409, f"the name {name!r} is taken; choose another", "name", "name_taken")
        if id not in self._prefixes and len(self._prefixes) >= _MOST_PREFIXES:
            raise ApiError(
                429, f"there are {_MOST_PREFIXES} prefixes; delete one first", code="too_many_prefixes"
            )

    def _id(self, request: PrefixRequest) -> str:
        about = [self.fingerprint, request.text, request.keep, request.size]
        return f"px-{hashlib.sha256(json.dumps(about).encode()).hexdigest()[:24]}"

    def update(self, id: str, **changes: Any) -> None:
        """Change what is known of a prefix; one that was deleted stays so."""
        with self._lock:
            if id in self._prefixes:
                self._prefixes[id] = replace(self._prefixes[id], **changes)

    def add_point(self, id: str, size: int, kept: int, asked: int) -> None:
        """Add a size to the curve of answers kept."""
        prefix = self._prefixes.get(id)
        if prefix is not None:
            self.update(id, curve={**prefix.curve, size: (kept, asked)})

    def finish(self, id: str, error: str | None) -> None:
        """Record that a compression has ended, with its report or the reason of its failure."""
        with self._lock:
            prefix = self._prefixes.get(id)
            if prefix is None:
                return
            if error is not None:
                write_json(self.folder / id / _FAILED, {"error": error})
            self._prefixes[id] = self._with_result(prefix)

    def delete(self, id: str) -> None:
        """Remove a prefix and its folder."""
        with self._lock:
            if self._prefixes.pop(id, None) is not None:
                shutil.rmtree(self.folder / id, ignore_errors=True)


def model_fingerprint(network: Any, tokenizer: Any) -> str:
    """Return a digest of a model's config, vocabulary and some numbers of every weight."""
    config = {
        k: v
        for k, v in network.config.to_dict().items()
        if k not in ("_name_or_path", "transformers_version")
    }
    digest = hashlib.sha256(
        json.dumps([config, fingerprint(tokenizer)], sort_keys=True, default=str).encode()
    )
    for name, tensor in network.state_dict().items():
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(tensor.flatten()[:_SAMPLE].float().cpu().numpy().tobytes())
    return digest.hexdigest()
