"""A method with its settings, as files and commands name it."""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from torch import Tensor

from attangent._core.checks import check_names, check_positive, check_size
from attangent._core.errors import AttangentError
from attangent.adapters.config import NTKConfig
from attangent.tuning.methods.peft_methods import RSLORA
from attangent.tuning.methods.registry import TECHNIQUES, technique_named
from attangent.tuning.methods.technique import MethodContext, Technique
from attangent.tuning.tasks import TaskKind, classifier_names


@dataclass(frozen=True)
class Method:
    """A tuning method with its settings.

    Args:
        name: `ntk` (a prefix state), `lora` (rank `rank`, on queries and values), `prefix` (`tokens` trained
            keys and values per layer, P-tuning v2), `head` (the classifier alone), `probe` (the classifier
            in closed form), `full` (every weight), `ntk+lora` or `peft` (any peft config).
        ntk: Settings of the prefix state.
        rank: Rank of LoRA.
        tokens: Number of trained prefix tokens.
        top: Adapt only this many of the last layers; None adapts all of them.
        learning_rate: Learning rate; None is the default of the method.
        peft: For `peft`, the `peft_type` (such as "IA3") and the settings of the config; for `lora`, more
            settings of peft.LoraConfig; for `ntk+lora`, the config that replaces its LoRA.

    Raises:
        AttangentError: If a setting is out of range or two settings contradict each other.

    Example:
        >>> Method("lora", rank=4).rate
        0.002
    """

    name: str = "ntk"
    ntk: NTKConfig = field(default_factory=NTKConfig)
    rank: int = 8
    tokens: int = 16
    top: int | None = None
    learning_rate: float | None = None
    peft: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        technique_named(self.name)
        check_size("rank", self.rank)
        check_size("tokens", self.tokens)
        if self.top is not None:
            check_size("top", self.top)
            if self.ntk.layers is not None:
                raise AttangentError("top and ntk.layers are both set; set one of them.")
        if self.learning_rate is not None:
            check_positive("learning_rate", self.learning_rate)
        usual = {setting.name: _default(setting) for setting in fields(self) if setting.name != "name"}
        _check_read(self.name, [name for name, value in usual.items() if getattr(self, name) != value])

    @property
    def technique(self) -> Technique:
        """The object that implements the method."""
        return technique_named(self.name)

    @property
    def rate(self) -> float:
        """The learning rate: the one that was set, or the default of the method."""
        return self.technique.default_rate(self) if self.learning_rate is None else self.learning_rate

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "Method":
        """Build a method from plain values, as a TOML file holds them.

        Args:
            settings: Values by field name; `ntk` is a table of NTKConfig settings.

        Returns:
            The method, with its defaults filled in.

        Raises:
            AttangentError: If a name is unknown or a value is out of range.

        Example:
            >>> Method.from_dict({"name": "ntk+lora"}).ntk.size
            8
        """
        check_names(settings, (setting.name for setting in fields(cls)), "a method")
        name = settings.get("name", cls.name)
        defaults = technique_named(name).defaults
        _check_read(name, [setting for setting in settings if setting != "name"])
        _check_set_once(name, settings)
        ntk = NTKConfig.from_dict({**defaults.get("ntk", {}), **settings.get("ntk", {})})
        return cls(**{**defaults, **settings, "ntk": ntk})


def _default(setting: Any) -> Any:
    return setting.default if setting.default_factory is MISSING else setting.default_factory()


def _check_read(name: str, settings: Iterable[str]) -> None:
    """Raise if the method of this name would ignore one of the settings."""
    for setting in settings:
        if setting not in technique_named(name).reads:
            readers = [technique.name for technique in TECHNIQUES.values() if setting in technique.reads]
            raise AttangentError(
                f"{setting} has no effect on the method {name}; leave it out, or choose a method that reads "
                f"it: {', '.join(readers)}."
            )


def _check_set_once(name: str, settings: Mapping[str, Any]) -> None:
    """Raise if another setting replaces one of these."""
    peft = settings.get("peft", {})
    if "rank" in settings and ("r" in peft or (peft and name == "ntk+lora")):
        raise AttangentError("rank has no effect if [method.peft] replaces it; leave one of them out.")
    for setting, instead in (("seed", "seed in [training]"), ("modules_to_save", "the task")):
        if setting in settings.get("ntk", {}):
            raise AttangentError(f"ntk.{setting} has no effect; {instead} decides it. Leave it out.")


# Stands for the default method of the task at hand.
DEFAULT = Method()


def default_settings(kind: TaskKind) -> dict[str, Any]:
    """Return the settings of the default method for a kind of task: LoRA, and rsLoRA for images.

    Args:
        kind: The kind of task.

    Returns:
        Settings that `Method.from_dict` takes.

    Example:
        >>> default_settings("classification")
        {'name': 'lora'}
    """
    if kind == "image-classification":
        return {"name": "lora", "peft": dict(RSLORA)}
    return {"name": "lora"}


def adapt(
    model: Any,
    method: Method,
    kind: TaskKind,
    seed: int,
    calibration: Iterable[Mapping[str, Tensor]] | None = None,
) -> Any:
    """Add the trainable parts of a method to a model and freeze everything else but the classifier.

    Args:
        model: A transformers model; it is changed.
        method: The method to add.
        kind: The kind of task.
        seed: Seed of the initial weights.
        calibration: Batches of model inputs; NTK-Attention in calibrated units needs them.

    Returns:
        The adapted model, which may wrap the original one.
    """
    context = MethodContext(kind, classifier_names(model, kind), seed, calibration)
    return method.technique.apply(model, method, context)
