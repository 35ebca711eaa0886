"""Findings on disk: one JSON file and one npz file per finding, never trusted before they are checked.

RUN/run.json               schema and profile
RUN/findings/NAME.json     a finding with its checksum
RUN/findings/NAME.npz      the arrays of its figures
RUN/failures/NAME.json     the traceback of a check that crashed
RUN/set-aside/             damaged or foreign files that were in the two folders above
"""

import hashlib
import io
import json
import math
import os
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attangent._core.errors import AttangentError
from attangent._core.files import real_folder, remove_leftovers, write_whole
from attangent.audit.claims import NATURES, ClaimTexts, is_claim_id, kind_of, nature_of
from attangent.audit.finding import Finding, Vector

Arrays = dict[str, np.ndarray]
SCHEMA = 1
_LARGEST_FILE = 256 * 2**20


class Damaged(Exception):
    """A file of the run that cannot be trusted; the message says why."""


@dataclass(frozen=True)
class Origin(ClaimTexts):
    """Which statement a finding belongs to, and what produced it."""

    claim: str
    title: str
    place: str
    statement: str
    profile: str
    settings: dict[str, Any]
    seed: int
    code: str
    kind: str = ""

    def __post_init__(self) -> None:
        if not self.kind:  # an earlier version did not write it
            object.__setattr__(self, "kind", kind_of(self.claim))
        if not self.nature:
            object.__setattr__(self, "nature", nature_of(self.claim, self.kind))
        if self.nature not in NATURES:
            raise ValueError(f"{self.nature!r} is not the nature of a claim")

    @property
    def paper(self) -> str:
        return self.claim.split("/")[0]

    @property
    def key(self) -> str:
        """A digest of the identity of a finding: claim, settings, seed and code version."""
        identity = [self.claim, plain(self.settings), self.seed, self.code]
        return hashlib.sha256(canonical(identity)).hexdigest()

    @property
    def stem(self) -> str:
        """The name of its files; a run holds one finding per claim and seed."""
        return f"{self.claim.replace('/', '--')}--seed-{self.seed}"


@dataclass(frozen=True)
class FindingRecord:
    """A finding, its origin, and the circumstances, which may differ between two equal findings."""

    origin: Origin
    finding: Finding
    seconds: float
    versions: dict[str, str]

    def encode(self) -> tuple[dict[str, Any], Arrays]:
        """Return this record as JSON values and arrays."""
        content = asdict(self.finding)
        arrays: Arrays = {}
        for f, figure in enumerate(content["figures"]):
            for s, series in enumerate(figure["series"]):
                for axis in "xy":
                    arrays[f"figure{f}-series{s}-{axis}"] = series.pop(axis)
        body = {
            "origin": asdict(self.origin),
            "finding": content,
            "verdict": self.finding.verdict.value,
            "seconds": self.seconds,
            "versions": self.versions,
        }
        return plain(body), arrays

    @classmethod
    def decode(cls, body: dict[str, Any], arrays: Arrays) -> "FindingRecord":
        """Return the record that `encode` gave; raise if the values do not fit together."""
        body = clean(body)
        content = body["finding"]
        figures = [_with_arrays(figure, f, arrays) for f, figure in enumerate(content["figures"])]
        finding = _as(Finding, {**content, "figures": figures}, strict=False)
        versions = _as(dict[str, str], body["versions"])
        record = cls(_decode_origin(body["origin"]), finding, float(body["seconds"]), versions)
        if not _is_known(content, record.encode()[0]["finding"]):
            raise ValueError("it has fields that this version does not know")
        return record

    def content(self) -> tuple[str, bytes]:
        """Return all that a seed fixes; it is equal for two runs that measured the same."""
        body, arrays = self.encode()
        digest = hashlib.sha256()
        for name in sorted(arrays):
            digest.update(name.encode() + arrays[name].tobytes())
        return digest.hexdigest(), canonical([body["origin"], body["finding"], body["verdict"]])


def canonical(value: Any) -> bytes:
    """Return JSON with one spelling for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def plain(value: Any) -> Any:
    """Convert `value` to JSON's types; numbers that JSON lacks become the strings inf, -inf and nan."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def clean(value: Any) -> Any:
    """Replace characters that cannot be encoded, so that `value` can be printed and written."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    return [clean(item) for item in value] if isinstance(value, list) else value


def _decode_origin(values: dict[str, Any]) -> Origin:
    """Return the origin with these values, also those of earlier versions; raise if they do not fit."""
    if not is_claim_id(values["claim"]):
        raise ValueError(f"{values['claim']!r} is not a claim")
    return _as(Origin, values)


def _as(kind: Any, value: Any, strict: bool = True) -> Any:
    """Return `value`, of JSON's types and arrays, as `kind`; raise ValueError if a type does not fit.

    Not strict takes the strings inf, -inf and nan as numbers.
    """
    import msgspec

    try:
        return msgspec.convert(value, kind, strict=strict, dec_hook=_vector)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def _with_arrays(figure: dict[str, Any], number: int, arrays: Arrays) -> dict[str, Any]:
    """Return a figure with the positions and values of its series."""
    names = [f"figure{number}-series{s}" for s in range(len(figure["series"]))]
    vectors = [{"x": arrays[f"{name}-x"], "y": arrays[f"{name}-y"]} for name in names]
    return {**figure, "series": [a | b for a, b in zip(figure["series"], vectors, strict=True)]}


def _is_known(value: Any, written: Any) -> bool:
    """Return whether `written` has every name that `value` has."""
    if isinstance(value, dict):
        return all(name in written and _is_known(item, written[name]) for name, item in value.items())
    return not isinstance(value, list) or all(map(_is_known, value, written))


def _vector(kind: Any, value: Any) -> Vector:
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{value!r} is not an array")
    return value.astype(np.float64, copy=False)


class Store:
    """Reads and writes the files of one run folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.findings = folder / "findings"
        self.failures = folder / "failures"

    def prepare(self, profile: str) -> None:
        """Create the folders, or check that they hold a run of this profile."""
        for folder in (self.folder, self.findings, self.failures):
            real_folder(folder)
            remove_leftovers(folder)
        present = self.profile()
        if present is not None and present != profile:
            raise AttangentError(
                f"{self.folder} holds a {present} run, not a {profile} one; pass another folder (--out)"
            )
        if present is None:
            write_whole(self.folder / "run.json", _wrap({"profile": profile}))

    def profile(self) -> str | None:
        """Return the profile of the run, or None if there is no run or its file is damaged."""
        try:
            return str(_unwrap(_read(self.folder / "run.json"))["profile"])
        except (Damaged, KeyError, FileNotFoundError):
            return None

    def write(self, record: FindingRecord) -> FindingRecord:
        """Write a finding completely or not at all, and delete an earlier failure of it.

        Returns the record as `read` would return it.
        """
        body, arrays = record.encode()
        packed = _pack(arrays)
        body["arrays"] = hashlib.sha256(packed).hexdigest()
        stem = record.origin.stem
        write_whole(self.findings / f"{stem}.npz", packed)
        write_whole(self.findings / f"{stem}.json", _wrap(body))
        (self.failures / f"{stem}.json").unlink(missing_ok=True)
        return FindingRecord.decode(body, arrays)

    def write_failure(self, origin: Origin, traceback: str) -> None:
        """Write the traceback of a check that crashed."""
        body = plain(
            {"claim": origin.claim, "seed": origin.seed, "traceback": traceback, "origin": asdict(origin)}
        )
        write_whole(self.failures / f"{origin.stem}.json", _wrap(body))

    def read(self, stem: str) -> FindingRecord:
        """Read and check the finding of this name; raise Damaged, or FileNotFoundError if there is none."""
        body = _unwrap(_read(self.findings / f"{stem}.json"))
        try:
            packed = _read(self.findings / f"{stem}.npz")
        except FileNotFoundError:
            raise Damaged("its arrays are missing") from None
        if hashlib.sha256(packed).hexdigest() != body.get("arrays"):
            raise Damaged("its arrays do not match their checksum")
        try:
            record = FindingRecord.decode(body, _unpack(packed))
            if record.origin.stem != stem:
                raise Damaged(f"it holds the finding {record.origin.stem}")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Damaged(f"it does not hold a finding ({error})") from None
        return record

    def read_all(self) -> tuple[list[FindingRecord], dict[Path, str]]:
        """Return every finding that can be trusted, and what is wrong with each file that cannot."""
        records = []
        problems = {}
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
        """Return claim, seed, traceback and origin of each check that crashed; damaged files are skipped."""
        failures = []
        for path in _entries(self.failures):
            try:
                body = clean(_unwrap(_read(path)))
                origin = _decode_origin(body["origin"]) if "origin" in body else None
                if not is_claim_id(body["claim"]) or not isinstance(body["seed"], int):
                    continue
                failure = {name: body[name] for name in ("claim", "seed")}
                failures.append({**failure, "traceback": str(body["traceback"]), "origin": origin})
            except (Damaged, KeyError, TypeError, ValueError, AttributeError, FileNotFoundError):
                continue
        return failures

    def set_aside(self, path: Path) -> Path:
        """Move a file that cannot be trusted out of the way, arrays included, and return its new path."""
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
        body = file["body"]
        schema = file["schema"]
        matches = file["checksum"] == hashlib.sha256(canonical(body)).hexdigest()
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Damaged("it was not written by an audit") from None
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
