"""What an adapter is: one frozen config, checked when it is made."""

import re
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from attangent._core.checks import check_between, check_names, check_size
from attangent._core.errors import AttangentError

Features = Literal["learned", "anchors", "elu", "printed", "taylor", "positive-random"]
Init = Literal["zero", "gaussian", "text"]
Per = Literal["query", "kv"]
Units = Literal["calibrated", "raw", "authors"]

_DEFAULT_SIZE = {"learned": 16, "anchors": 16, "positive-random": 64}
_DEFAULT_SHARE = {"learned": 0.03, "anchors": 0.5}
_LARGEST_SIZE = 65_536
_LARGEST_OFFSET = 1 << 24
_LONGEST_PATTERN = 1000


@dataclass(frozen=True)
class NTKConfig:
    """A prefix state for each chosen attention layer.

    features: the map phi. `learned` (default) and `anchors` train their features; `elu` is the authors' map,
        `printed` the one printed in P1; `taylor` and `positive-random` approximate exp.
    size: how many features r, for `learned`, `anchors`, `positive-random`; the order of `taylor`.
    units: `calibrated` (phi of centred, scaled queries; masses and values in units of the layer's own),
        `raw` (the paper's Z and k), `authors` (raw with k = abs of a mass whose slope at 0 is 0). None:
        calibrated for `learned` and `anchors`, raw otherwise.
    init: `zero` (Z = 0), `gaussian` (Eq. 7 with a random prefix of `prefix_length` tokens), `text` (Eq. 7
        with the keys and values of a prompt given to `attach`).
    share: the prefix's mass at the start, relative to that of the tokens (calibrated units only). 0 with init
        `zero` is the base model bit for bit. None: 0.03 for `learned`, 0.5 for `anchors`.
    damped: the part of the queries' directions, the widest ones, that learned features and anchors see as
        wide as the others (calibrated units only, and not with init `text`); 0 for none.
    rank: Z = Z_A Z_B of this rank (raw units).
    layers: a regular expression searched for in the names of attention layers, or their places among all
        of them, such as (-2, -1) for the last two. None: all.
    per: one state for each `query` head or for each `kv` head.
    position_offset: how many positions the tokens are moved, as behind a prompt of that length.
    modules_to_save: names of modules that are trained and saved with the adapter, such as a classifier.

    >>> NTKConfig(layers=(-2, -1)).resolved_size
    16
    """

    features: Features = "learned"
    size: int | None = None
    units: Units | None = None
    init: Init = "zero"
    share: float | None = None
    damped: float = 0.25
    rank: int | None = None
    layers: str | tuple[int, ...] | None = None
    per: Per = "query"
    position_offset: int = 0
    prefix_length: int = 100
    modules_to_save: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("layers", "modules_to_save"):
            if isinstance(getattr(self, name), list):
                object.__setattr__(self, name, tuple(getattr(self, name)))
        self._check_words()
        self._check_numbers()
        self._check_layers()
        self._check_combinations()

    @property
    def resolved_units(self) -> Units:
        return self.units or ("calibrated" if self.features in _DEFAULT_SHARE else "raw")

    @property
    def resolved_size(self) -> int | None:
        """r, or the order of `taylor`; None for maps of fixed size."""
        return self.size or {**_DEFAULT_SIZE, "taylor": 2}.get(self.features)

    @property
    def resolved_share(self) -> float:
        if self.share is not None:
            return float(self.share)
        return _DEFAULT_SHARE.get(self.features, 0.0) if self.resolved_units == "calibrated" else 0.0

    def as_dict(self) -> dict[str, Any]:
        """All settings as plain values, for a file."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> "NTKConfig":
        """The config with these settings; an unknown one is refused."""
        check_names(settings, (field.name for field in fields(cls)), "an adapter")
        return cls(**settings)

    def _check_words(self) -> None:
        for name, kind in (("features", Features), ("init", Init), ("per", Per)):
            _check_word(name, getattr(self, name), get_args(kind))
        if self.units is not None:
            _check_word("units", self.units, get_args(Units))

    def _check_numbers(self) -> None:
        for name in ("size", "rank"):
            if getattr(self, name) is not None:
                check_size(name, getattr(self, name))
        check_size("prefix_length", self.prefix_length)
        if self.size is not None and self.size > _LARGEST_SIZE:
            raise AttangentError(f"size is {self.size}, expected at most {_LARGEST_SIZE}")
        _check_whole("position_offset", self.position_offset, _LARGEST_OFFSET)
        _check_whole("seed", self.seed, 1 << 62)
        if self.share is not None and not (isinstance(self.share, int | float) and 0 <= self.share < 1e6):
            raise AttangentError(f"share is {self.share!r}, expected a number of at least 0")
        if check_between("damped", self.damped, 0, 1) == 1:
            raise AttangentError("damped is 1, expected less: some directions stay as they are")

    def _check_layers(self) -> None:
        names = self.modules_to_save
        if not isinstance(names, tuple) or not all(isinstance(name, str) and name for name in names):
            raise AttangentError(f"modules_to_save is {names!r}, expected names of modules")
        if isinstance(self.layers, str):
            if len(self.layers) > _LONGEST_PATTERN:
                raise AttangentError(
                    f"layers has {len(self.layers)} letters, expected a regular expression of at most "
                    f"{_LONGEST_PATTERN}"
                )
            try:
                re.compile(self.layers)
            except (re.error, RecursionError, OverflowError) as error:
                raise AttangentError(
                    f"layers is {self.layers!r}, which is no regular expression: {error}"
                ) from None
        elif self.layers is not None and not _are_places(self.layers):
            raise AttangentError(
                f"layers is {self.layers!r}, expected a regular expression, places such as (-2, -1), or None"
            )

    def _check_combinations(self) -> None:
        calibrated = self.resolved_units == "calibrated"
        if calibrated and self.features not in _DEFAULT_SHARE:
            raise AttangentError(
                f"units are calibrated for features {self.features!r}, expected learned or anchors: "
                "use units='raw'"
            )
        if self.share and not calibrated:
            raise AttangentError(
                f"share is {self.share} in {self.resolved_units} units, expected calibrated ones or share=0"
            )
        if self.rank is not None and (calibrated or self.init != "zero"):
            raise AttangentError("rank needs units='raw' and init='zero'")
        if self.size is not None and self.features in ("elu", "printed"):
            raise AttangentError(f"size is {self.size}, but {self.features} has as many features as the head")
        if self.features == "learned" and self.size == 1:
            raise AttangentError("size is 1, expected at least 2 learned features, the first being constant")
        if self.init != "zero" and self.features == "learned":
            raise AttangentError(
                f"init is {self.init!r} for learned features, which stand for no keys: "
                "use features='anchors' or another map, or init='zero'"
            )


def _check_word(name: str, value: Any, known: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in known:
        raise AttangentError(f"{name} is {value!r}, expected one of {', '.join(known)}")


def _check_whole(name: str, value: Any, largest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest:
        raise AttangentError(f"{name} is {value!r}, expected a whole number from 0 to {largest}")


def _are_places(layers: Any) -> bool:
    whole = isinstance(layers, tuple) and all(isinstance(i, int) and not isinstance(i, bool) for i in layers)
    return whole and len(layers) > 0
