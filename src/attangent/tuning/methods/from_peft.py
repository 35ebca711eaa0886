"""Methods that are a config of peft's."""

import contextlib
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attangent._core.errors import AttangentError, loading
from attangent.adapters.files.format import WEIGHTS
from attangent.tuning.methods.technique import Site, Technique
from attangent.tuning.tasks import NEEDS, TaskKind

if TYPE_CHECKING:
    from attangent.tuning.methods.settings import Method


class FromPeft(Technique):
    """A config of peft's decides what is added; peft saves it."""

    @abstractmethod
    def config(self, model: Any, method: "Method", site: Site) -> Any:
        """peft's config for this model."""

    def added(self, model: Any, method: "Method", site: Site) -> Any:
        from peft import get_peft_model

        with quiet_about_merging():
            return get_peft_model(model, self.config(model, method, site))

    def save(self, model: Any, place: Path) -> None:
        model.save_pretrained(place)

    def load(self, model: Any, place: Path) -> Any:
        return with_peft_adapter(model, place)


@contextlib.contextmanager
def quiet_about_merging() -> Iterator[None]:
    """No warning that LoRA cannot be merged into quantised weights: nothing is merged here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*without `get_apply_tensor_subclass`")
        yield


def with_peft_adapter(model: Any, place: Path) -> Any:
    """The model with the adapter that peft saved; only weights in safetensors are read."""
    from peft import PeftModel

    if not (place / WEIGHTS).is_file():
        raise AttangentError(f"{place} has no {WEIGHTS}, the only kind of weights that is read")
    with quiet_about_merging(), loading(f"no adapter of peft can be loaded from {place}"):
        warnings.filterwarnings("ignore", message=".*Unexpected keyword arguments.*pooling")
        return PeftModel.from_pretrained(model, str(place))


def peft_task(kind: TaskKind) -> str | None:
    """peft's name of this kind of task, None where it has none."""
    return NEEDS[kind].peft_task
