"""What a comparison of tuning methods consists of: entrants, tasks and their splits, how long to train."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from attangent._core.checks import check_names, check_size
from attangent._core.errors import AttangentError
from attangent._core.settings import read_toml, settings_of
from attangent.tuning.methods import Method
from attangent.tuning.pooling import Pooling, check_pooling
from attangent.tuning.recipe import PLAIN, Recipe
from attangent.tuning.training import Training


@dataclass(frozen=True)
class Entrant:
    """A method under a label, with the learning rates it may choose from on validation data."""

    label: str
    method: Method
    rates: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.label:
            raise AttangentError("an entrant has no label, expected a name for the table")
        if not self.rates:
            object.__setattr__(self, "rates", (self.method.rate,))
        if not all(rate > 0 for rate in self.rates):
            raise AttangentError(f"{self.label} has the rates {self.rates}, expected numbers above 0")

    def at(self, rate: float) -> Method:
        return replace(self.method, learning_rate=rate)


@dataclass(frozen=True)
class Trial:
    """A data set and how many examples each split of it has. Every seed draws another split.

    files: one pool, from which train, validation and (without `eval_files`) test examples are drawn.
    """

    name: str
    files: tuple[Path, ...]
    train: int
    validation: int
    test: int
    eval_files: tuple[Path, ...] = ()
    layout: str | None = None
    max_tokens: int = 128

    def __post_init__(self) -> None:
        for name in ("files", "eval_files"):
            paths = getattr(self, name)
            given = (paths,) if isinstance(paths, str | Path) else paths
            object.__setattr__(self, name, tuple(Path(path) for path in given))
        if not self.files:
            raise AttangentError(f"task {self.name} has no files, expected at least one")
        for path in (*self.files, *self.eval_files):
            if not path.exists():
                raise AttangentError(f"task {self.name}: there is no {path}")
        for name in ("train", "validation", "test", "max_tokens"):
            check_size(name, getattr(self, name))


@dataclass(frozen=True)
class Comparison:
    """Methods on tasks, each with several seeds.

    top: adapt the last so many layers of an encoder; what lies below is computed once a split. None: all.
    recipe, pooling: as in `tune`, the same for every entrant; by default training and nothing else.
    first_seed: seeds are counted from here; another one draws splits that an earlier comparison has not seen.
    """

    model: str
    entrants: tuple[Entrant, ...]
    trials: tuple[Trial, ...]
    training: Training = field(default_factory=Training)
    seeds: int = 5
    top: int | None = None
    first_seed: int = 0
    recipe: Recipe = PLAIN
    pooling: Pooling = "first"

    @property
    def drawn(self) -> range:
        """The seeds themselves."""
        return range(self.first_seed, self.first_seed + self.seeds)

    def __post_init__(self) -> None:
        check_size("seeds", self.seeds)
        check_pooling(self.pooling)
        check_size("first_seed", self.first_seed, least=0)
        for name, parts in (("entrants", self.entrants), ("tasks", self.trials)):
            labels = [part.label if isinstance(part, Entrant) else part.name for part in parts]
            if not labels or len(set(labels)) < len(labels):
                raise AttangentError(f"the {name} are {labels}, expected at least one, and each but once")
        if self.top is not None and any(entrant.method.top is not None for entrant in self.entrants):
            raise AttangentError("top is given for the comparison and for an entrant, expected one of them")


def read_comparison(path: Path) -> Comparison:
    """A comparison from a TOML file; its files are sought beside it. See docs/tuning.md."""
    return comparison_of(read_toml(path), path.parent)


def comparison_of(content: Mapping[str, Any], folder: Path) -> Comparison:
    """A comparison from plain values; relative files are below `folder`."""
    known = {"model", "seeds", "first_seed", "top", "training", "entrants", "tasks", "recipe", "pooling"}
    check_names(content, known, "a comparison")
    if not isinstance(content.get("model"), str):
        raise AttangentError("a comparison names no model; give a hub id or a folder")
    model = content["model"]
    return Comparison(
        model=str(folder / model) if (folder / model).is_dir() else model,
        entrants=tuple(_entrant(label, given) for label, given in _tables(content, "entrants")),
        trials=tuple(_trial(name, given, folder) for name, given in _tables(content, "tasks")),
        training=training_of(content.get("training", {})),
        seeds=content.get("seeds", 5),
        top=content.get("top"),
        first_seed=content.get("first_seed", 0),
        recipe=_recipe(content.get("recipe")),
        pooling=content.get("pooling", "first"),
    )


def _recipe(given: Mapping[str, Any] | None) -> Recipe:
    """Training and nothing else where there is no table `recipe`, else what it says."""
    return PLAIN if given is None else settings_of(Recipe, given, "a recipe")


def training_of(given: Mapping[str, Any]) -> Training:
    """The training with these settings; an unknown one is refused."""
    return settings_of(Training, given, "a training")


def _entrant(label: str, given: Mapping[str, Any]) -> Entrant:
    given = _table(given, f"entrant {label}")
    method = {name: value for name, value in given.items() if name != "rates"}
    return Entrant(label, Method.from_dict(method), tuple(given.get("rates", ())))


def _trial(name: str, given: Mapping[str, Any], folder: Path) -> Trial:
    given = _table(given, f"task {name}")
    missing = {"files", "train", "validation", "test"} - set(given)
    if missing:
        raise AttangentError(f"task {name} lacks {', '.join(sorted(missing))}")
    paths = {key: [str(folder / path) for path in _texts(given, key)] for key in ("files", "eval_files")}
    return settings_of(Trial, {**given, "name": name, **paths}, f"task {name}")


def _tables(content: Mapping[str, Any], name: str) -> Iterable[tuple[str, Any]]:
    return _table(content.get(name, {}), name).items()


def _table(content: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(content, Mapping):
        raise AttangentError(f"{what} is {content!r:.60}, expected a table")
    return content


def _texts(given: Mapping[str, Any], key: str) -> list[str]:
    found = given.get(key, [])
    if not isinstance(found, list | tuple) or not all(isinstance(one, str | Path) for one in found):
        raise AttangentError(f"{key} is {found!r:.60}, expected a list of file names")
    return [str(one) for one in found]
