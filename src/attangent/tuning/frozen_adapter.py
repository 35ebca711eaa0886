"""A peft adapter of the user's own that acts, frozen, on the model on which a state is tuned."""

from pathlib import Path
from typing import Any

from attangent._core.errors import AttangentError
from attangent.adapters.files.format import CONFIG, PEFT_TYPE, WEIGHTS
from attangent.adapters.files.read import read_description
from attangent.tuning.methods.from_peft import with_peft_adapter

_IN_FRONT = ("PREFIX_TUNING", "PROMPT_TUNING", "P_TUNING", "MULTITASK_PROMPT_TUNING", "CARTRIDGE", "CPT")


def check_beside(folder: Path) -> None:
    """Refuse what is not the folder of a peft adapter that changes layers and nothing else."""
    if not (folder / CONFIG).is_file() or not (folder / WEIGHTS).is_file():
        raise AttangentError(f"{folder} has no {CONFIG} and {WEIGHTS}; give the folder of a peft adapter")
    found = read_description(folder / CONFIG)
    kind = found.get("peft_type")
    if kind == PEFT_TYPE:
        raise AttangentError(f"{folder} holds a state of attangent's, expected one of peft's")
    if kind in _IN_FRONT:
        raise AttangentError(f"{folder} is {kind}, which stands before the tokens; give another kind")
    if found.get("modules_to_save"):
        raise AttangentError(
            f"{folder} has its own {', '.join(found['modules_to_save'])}, and the state would train one too; "
            "give one without modules_to_save"
        )


def with_beside(model: Any, folder: str | Path | None) -> Any:
    """The model with the adapter's layers in it, frozen; the model as it is where there is none."""
    if folder is None:
        return model
    check_beside(Path(folder))
    try:
        return with_peft_adapter(model, Path(folder)).get_base_model()
    except (ValueError, RuntimeError, KeyError) as error:
        reason = str(error).strip().splitlines()[0]
        raise AttangentError(f"{folder} does not fit the model: {reason}") from error
