"""The configuration of an adapter, checked on creation."""

import re
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from attangent._core.checks import check_between, check_choice, check_names, check_size
from attangent._core.errors import AttangentError

Features = Literal["learned", "anchors", "elu", "printed", "taylor", "positive-random"]
Init = Literal["zero", "gaussian", "text"]
Per = Literal["query", "kv"]
Units = Literal["calibrated", "raw", "authors"]

_DEFAULT_SIZE = {"learned": 16, "anchors": 16, "positive-random": 64, "taylor": 2}
_DEFAULT_SHARE = {"learned": 0.03, "anchors": 0.5}
_LARGEST_SIZE = 65_536
_LARGEST_OFFSET = 1 << 24
_LONGEST_PATTERN = 1000


@dataclass(frozen=True)
class NTKConfig:
    """Settings of a prefix state per chosen attention layer.

    Args:
        features: The feature map phi. `learned` and `anchors` train their features; `elu` is the map of the
            authors' code, `printed` the one printed in P1; `taylor` and `positive-random` approximate exp.
        size: Number of features r of `learned`, `anchors` and `positive-random`; order of `taylor`.
        units: `calibrated` (phi of centred, scaled queries; masses and values in units of the layer), `raw`
            (the paper's Z and k) or `authors` (raw with k = abs of a mass whose slope at 0 is 0). By default
            calibrated for `learned` and `anchors`, otherwise raw.
        init: `zero` (Z = 0), `gaussian` (Eq. 7 with a random prefix of `prefix_length` tokens) or `text`
            (Eq. 7 with the keys and values of a prompt passed to `attach`).
        share: Initial mass of the prefix relative to the mass of the tokens; calibrated units only. 0 with
            init `zero` is the base model bit for bit. By default 0.03 for `learned`, 0.5 for `anchors`.
        damped: Fraction of the queries' directions, the widest ones, that learned features and anchors see
            as wide as the others; calibrated units only, and not with init `text`.
        rank: Rank of Z = Z_A Z_B; raw units only.
        layers: A regular expression searched for in the names of attention layers, or their indices, such
            as (-2, -1) for the last two; by default all layers.
        per: One state per `query` head or per `kv` head.
        position_offset: Number of positions by which tokens are shifted, as after a prompt of that length.
        prefix_length: Number of random tokens of init `gaussian`.
        modules_to_save: Names of modules that are trained and saved with the adapter, such as a classifier.
        seed: Seed of all random draws.

    Raises:
        AttangentError: If a setting is out of range or does not fit the others.

    Example:
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
        for name, kind in (("features", Features), ("init", Init), ("per", Per)):
            check_choice(name, getattr(self, name), get_args(kind))
        if self.units is not None:
            check_choice("units", self.units, get_args(Units))
        self._check_numbers()
        self._check_names()
        self._check_layers()
        self._check_combinations()

    @property
    def resolved_units(self) -> Units:
        """The units, with the default filled in."""
        return self.units or ("calibrated" if self.features in _DEFAULT_SHARE else "raw")

    @property
    def resolved_size(self) -> int | None:
        """Number of features r, or the order of `taylor`; None for maps of fixed size."""
        return self.size or _DEFAULT_SIZE.get(self.features)

    @property
    def resolved_share(self) -> float:
        """The initial share, with the default filled in."""
        if self.share is not None:
            return float(self.share)
        return _DEFAULT_SHARE.get(self.features, 0.0) if self.resolved_units == "calibrated" else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return all settings as plain values, for a file.

        Returns:
            The settings by name, tuples as lists.
        """
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> "NTKConfig":
        """Return the config with these settings.

        Args:
            settings: Settings by name, as `as_dict` returns them.

        Returns:
            The config.

        Raises:
            AttangentError: If a name is unknown or a value does not fit.
        """
        if not isinstance(settings, dict):
            raise AttangentError(f"the settings are {type(settings).__name__}, expected them by name")
        check_names(settings, (field.name for field in fields(cls)), "an adapter")
        values: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in settings.items()}
        return cls(**values)

    def _check_numbers(self) -> None:
        for name in ("size", "rank"):
            if getattr(self, name) is not None:
                check_size(name, getattr(self, name))
        check_size("prefix_length", self.prefix_length)
        for name, largest in (("size", _LARGEST_SIZE), ("position_offset", _LARGEST_OFFSET)):
            if getattr(self, name) is not None and check_size(name, getattr(self, name), 0) > largest:
                raise AttangentError(f"{name} is {getattr(self, name)}, expected at most {largest}")
        check_size("seed", self.seed, 0)
        if self.share is not None:
            check_between("share", self.share, 0, 1e6)
        if check_between("damped", self.damped, 0, 1) == 1:
            raise AttangentError("damped is 1, expected less: at least one direction has to stay undamped")

    def _check_names(self) -> None:
        names = self.modules_to_save
        if not isinstance(names, tuple) or not all(isinstance(name, str) and name for name in names):
            raise AttangentError(f"modules_to_save is {names!r}, expected names of modules")

    def _check_layers(self) -> None:
        layers = self.layers
        if layers is None or _are_indices(layers):
            return
        if not isinstance(layers, str):
            raise AttangentError(
                f"layers is {layers!r}, expected a regular expression, indices such as (-2, -1), or None"
            )
        if len(layers) > _LONGEST_PATTERN:
            raise AttangentError(
                f"layers has {len(layers)} characters, expected a regular expression of at most "
                f"{_LONGEST_PATTERN}"
            )
        try:
            re.compile(layers)
        except (re.error, RecursionError, OverflowError) as error:
            raise AttangentError(f"layers is {layers!r}, which is no regular expression: {error}") from None

    def _check_combinations(self) -> None:
        calibrated = self.resolved_units == "calibrated"
        if calibrated and self.features not in _DEFAULT_SHARE:
            raise AttangentError(
                f"units are calibrated for features {self.features!r}, expected learned or anchors: "
                "use units='raw'"
            )
        if self.share and not calibrated:
            raise AttangentError(
                f"share is {self.share} in {self.resolved_units} units, expected calibrated units or share=0"
            )
        if self.rank is not None and (calibrated or self.init != "zero"):
            raise AttangentError("rank needs units='raw' and init='zero'")
        if self.size is not None and self.features in ("elu", "printed"):
            raise AttangentError(f"size is {self.size}, but {self.features} has the size of the head")
        if self.features == "learned" and self.size == 1:
            raise AttangentError("size is 1, expected at least 2 learned features: the first is constant")
        if self.init != "zero" and self.features == "learned":
            raise AttangentError(
                f"init is {self.init!r}, but learned features do not represent keys: "
                "use features='anchors' or another map, or init='zero'"
            )


def _are_indices(layers: Any) -> bool:
    whole = isinstance(layers, tuple) and all(isinstance(i, int) and not isinstance(i, bool) for i in layers)
    return whole and len(layers) > 0
