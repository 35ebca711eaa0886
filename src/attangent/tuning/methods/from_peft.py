"""Methods that are a config of peft's."""

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attangent.tuning.kinds import NEEDS, TaskKind
from attangent.tuning.methods.technique import Site, Technique

if TYPE_CHECKING:
    from attangent.tuning.methods.settings import Method


class FromPeft(Technique):
    """A config of peft's decides what is added; peft saves it."""

    @abstractmethod
    def config(self, model: Any, method: "Method", site: Site) -> Any:
        """peft's config for this model."""

    def added(self, model: Any, method: "Method", site: Site) -> Any:
        from peft import get_peft_model

        return get_peft_model(model, self.config(model, method, site))

    def save(self, model: Any, folder: Path, tokenizer: Any) -> None:
        model.save_pretrained(folder / "adapter")


def peft_task(kind: TaskKind) -> str | None:
    """peft's name of this kind of task, None where it has none."""
    return NEEDS[kind].peft_task
