"""A run on disk: one JSON file and one npz file per finding, never trusted before they are checked.

RUN/run.json               schema and profile
RUN/findings/NAME.json     a finding with its checksum
RUN/findings/NAME.npz      the arrays of its figures
RUN/failures/NAME.json     the traceback of a check that crashed
RUN/set-aside/             damaged or foreign files found in the two folders above
"""

import hashlib
import io
import json
import os
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from attangent._core.errors import AttangentError
from attangent._core.files import real_folder, remove_leftovers, write_whole
from attangent.audit.claims import is_claim_id
from attangent.audit.storing.record import Arrays, Origin, Record, canonical, clean, decode_origin, plain

SCHEMA = 1
_LARGEST_FILE = 256 * 2**20


class Damaged(Exception):
    """A file of the run that cannot be trusted; the message says why."""


class Store:
    """Reads and writes the files of one run folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.findings = folder / "findings"
        self.failures = folder / "failures"

    def prepare(self, profile: str) -> None:
        """Make the folders, or check that they hold a run of this profile."""
        for folder in (self.folder, self.findings, self.failures):
            real_folder(folder)
            remove_leftovers(folder)
        kept = self.profile()
        if kept is not None and kept != profile:
            raise AttangentError(
                f"{self.folder} holds a run of the {kept} profile, not {profile}: name another folder (--out)"
            )
        if kept is None:
            write_whole(self.folder / "run.json", _wrap({"profile": profile}))

    def profile(self) -> str | None:
        """The profile of the run here; None where there is none or its file is damaged."""
        try:
            return str(_unwrap(_read(self.folder / "run.json"))["profile"])
        except (Damaged, KeyError, FileNotFoundError):
            return None

    def write(self, record: Record) -> Record:
        """Write a finding; afterwards it is there whole, and a failure noted for it is gone.

        Gives the record as `read` would give it.
        """
        body, arrays = record.encode()
        packed = _pack(arrays)
        body["arrays"] = hashlib.sha256(packed).hexdigest()
        stem = record.origin.stem
        write_whole(self.findings / f"{stem}.npz", packed)
        write_whole(self.findings / f"{stem}.json", _wrap(body))
        (self.failures / f"{stem}.json").unlink(missing_ok=True)
        return Record.decode(body, arrays)

    def write_failure(self, origin: Origin, traceback: str) -> None:
        """Keep the traceback of a check that crashed."""
        body = plain(
            {"claim": origin.claim, "seed": origin.seed, "traceback": traceback, "origin": asdict(origin)}
        )
        write_whole(self.failures / f"{origin.stem}.json", _wrap(body))

    def read(self, stem: str) -> Record:
        """The finding of this name, checked; raises Damaged, or FileNotFoundError where there is none."""
        body = _unwrap(_read(self.findings / f"{stem}.json"))
        try:
            packed = _read(self.findings / f"{stem}.npz")
        except FileNotFoundError:
            raise Damaged("its arrays are missing") from None
        if hashlib.sha256(packed).hexdigest() != body.get("arrays"):
            raise Damaged("its arrays do not match their checksum")
        try:
            record = Record.decode(body, _unpack(packed))
            if record.origin.stem != stem:
                raise Damaged(f"it holds the finding {record.origin.stem}")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Damaged(f"it does not hold a finding ({error})") from None
        return record

    def read_all(self) -> tuple[list[Record], dict[Path, str]]:
        """Every finding that can be trusted, and what is wrong with each file that cannot."""
        records, problems = [], {}
        for path in _entries(self.findings):
            if path.suffix == ".npz" and (self.findings / f"{path.stem}.json").is_file():
                continue
            try:
                if path.suffix != ".json" or path.is_symlink() or not path.is_file():
                    raise Damaged("it is not a finding")
                records.append(self.read(path.stem))
            except Damaged as error:
                problems[path] = str(error)
        return records, problems

    def read_failures(self) -> list[dict[str, Any]]:
        """Claim, seed, traceback and origin of each check that crashed; damaged files are passed over."""
        failures = []
        for path in _entries(self.failures):
            try:
                body = clean(_unwrap(_read(path)))
                origin = decode_origin(body["origin"]) if "origin" in body else None
                if not is_claim_id(body["claim"]) or not isinstance(body["seed"], int):
                    continue
                failures.append(
                    {
                        "claim": body["claim"],
                        "seed": body["seed"],
                        "traceback": str(body["traceback"]),
                        "origin": origin,
                    }
                )
            except (Damaged, KeyError, TypeError, ValueError, AttributeError, FileNotFoundError):
                continue
        return failures

    def set_aside(self, path: Path) -> Path:
        """Move a file that cannot be trusted out of the way, arrays included; gives its new place."""
        aside = real_folder(self.folder / "set-aside")
        taken = len(_entries(aside))
        moved = aside / f"{taken}-{path.name}"
        os.rename(path, moved)
        arrays = path.with_suffix(".npz")
        if path.suffix == ".json" and os.path.lexists(arrays):
            os.rename(arrays, aside / f"{taken}-{arrays.name}")
        return moved


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _read(path: Path) -> bytes:
    if path.is_symlink() or path.is_dir():
        raise Damaged("it is not a plain file")
    if path.stat().st_size > _LARGEST_FILE:
        raise Damaged(f"it is larger than {_LARGEST_FILE} bytes")
    return path.read_bytes()


def _wrap(body: dict[str, Any]) -> bytes:
    checksum = hashlib.sha256(canonical(body)).hexdigest()
    return json.dumps({"schema": SCHEMA, "checksum": checksum, "body": body}, indent=1).encode() + b"\n"


def _unwrap(data: bytes) -> dict[str, Any]:
    try:
        file = json.loads(data)
        schema, checksum, body = file["schema"], file["checksum"], file["body"]
        matches = checksum == hashlib.sha256(canonical(body)).hexdigest()
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Damaged("it is not a file of this kind") from None
    if schema != SCHEMA:
        raise Damaged(f"it has schema {schema!r}, expected {SCHEMA}")
    if not matches or not isinstance(body, dict):
        raise Damaged("it does not match its checksum")
    return body


def _pack(arrays: Arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)  # pyright: ignore[reportArgumentType]
    return buffer.getvalue()


def _unpack(data: bytes) -> Arrays:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > _LARGEST_FILE:
                raise Damaged(f"its arrays unpack to more than {_LARGEST_FILE} bytes")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile):
        raise Damaged("its arrays cannot be read") from None
