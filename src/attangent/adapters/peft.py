"""The peft plug-in: NTK-Attention as a peft method, like LoRA and the others.

Importing this file imports peft, so no other file imports it. After `register()`, call

    get_peft_model(model, NTKPeftConfig(ntk=NTKConfig(...)))

and use peft as usual: from_pretrained, add, set, disable, delete, save. peft registers new methods only for
members of its enum, but its mappings accept any key: ours is a member of a string enum.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NoReturn

import torch
from peft import PeftConfig
from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING, PEFT_TYPE_TO_PREFIX_MAPPING, PEFT_TYPE_TO_TUNER_MAPPING
from peft.tuners.tuners_utils import BaseTuner, BaseTunerLayer
from peft.utils.other import set_additional_trainable_modules
from torch import nn

from attangent._core.errors import AttangentError
from attangent._version import __version__
from attangent.adapters.attaching import check_state_fits, detach, install
from attangent.adapters.config import NTKConfig
from attangent.adapters.files.format import (
    FORMAT,
    PEFT_TYPE,
    blank_states,
    describe_state,
)
from attangent.adapters.layers import attention_layers, check_layers, chosen_layers
from attangent.adapters.record import find_record, record_of, states_of
from attangent.adapters.slot import Slot
from attangent.adapters.states import new_state

_PREFIX = "attangent_prefix.states"


class NTKPeftType(str, Enum):  # noqa: UP042 (as peft's own)
    """The name of the method in peft's mappings and in adapter_config.json."""

    ATTANGENT_NTK = PEFT_TYPE


@dataclass
class NTKPeftConfig(PeftConfig):
    """An `NTKConfig` as a peft config; `modules_to_save` is the field of peft."""

    ntk: Any = field(default_factory=dict, metadata={"help": "An NTKConfig, or its settings as a dict."})
    modules_to_save: list[str] | None = field(
        default=None, metadata={"help": "Modules trained and saved with the adapter, such as a classifier."}
    )
    states: dict[str, Any] | None = field(default=None, metadata={"help": "Filled in by attangent."})
    format: str = FORMAT
    versions: dict[str, str] = field(default_factory=lambda: {"attangent": __version__})
    base_model_class: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.peft_type = NTKPeftType.ATTANGENT_NTK  # pyright: ignore[reportAttributeAccessIssue]
        config = self.ntk if isinstance(self.ntk, NTKConfig) else NTKConfig.from_dict(self.ntk)
        self.ntk = config.as_dict()
        if config.modules_to_save:
            names = [*(self.modules_to_save or []), *config.modules_to_save]
            self.modules_to_save = list(dict.fromkeys(names))
        if config.init == "text":
            raise AttangentError(
                "init='text' needs a prompt: use attangent.attach and save_adapter, then load it with peft"
            )


class NTKSlot(Slot, BaseTunerLayer):
    """A slot with the interface of a peft layer."""

    adapter_layer_names = ("states",)

    @property
    def weight(self) -> Any:
        return None

    @property
    def bias(self) -> Any:
        return None

    def set_adapter(self, adapter_names: str | list[str], inference_mode: bool = False) -> None:
        super().set_adapter(adapter_names, inference_mode)
        self.active = tuple(self.active_adapters)
        self.folded = None

    def enable_adapters(self, enabled: bool) -> None:
        super().enable_adapters(enabled)
        self.enabled = enabled


class NTKTuner(BaseTuner):
    """A peft tuner that puts prefix states into attention layers."""

    prefix = _PREFIX
    tuner_layer_cls = NTKSlot
    target_module_mapping: dict[str, Any] = {}  # noqa: RUF012 (as declared by peft)

    def inject_adapter(
        self,
        model: nn.Module,
        adapter_name: str,
        autocast_adapter_dtype: bool = True,
        low_cpu_mem_usage: bool = False,
        state_dict: dict[str, torch.Tensor] | None = None,
    ) -> None:
        peft_config = self.peft_config[adapter_name]
        if not isinstance(peft_config, NTKPeftConfig):
            raise AttangentError(f"the config is {type(peft_config).__name__}, expected an NTKPeftConfig")
        config = NTKConfig.from_dict(peft_config.ntk)
        install(model, config, adapter_name, _first_states(model, config, peft_config), NTKSlot)
        peft_config.states = {at: describe_state(s) for at, s in states_of(model, adapter_name).items()}
        self.set_adapter(self.active_adapters, inference_mode=peft_config.inference_mode)
        set_additional_trainable_modules(
            model=model,
            peft_config=peft_config,
            model_config=BaseTuner.get_model_config(self),
            adapter_name=adapter_name,
            activate_adapter=adapter_name in self.active_adapters,
        )

    def set_adapter(self, adapter_name: str | list[str], inference_mode: bool = False) -> None:
        super().set_adapter(adapter_name, inference_mode)
        record = record_of(self.model)
        record.active = tuple(name for name in self.active_adapters if name in record.configs)

    def delete_adapter(self, adapter_name: str) -> None:
        super().delete_adapter(adapter_name)
        record = record_of(self.model)
        record.configs.pop(adapter_name, None)
        record.active = tuple(self.active_adapters)

    def merge_and_unload(self, *_: Any, **__: Any) -> NoReturn:
        raise AttangentError(
            "an NTK prefix cannot be merged: it adds phi(q) Z and phi(q) k, nonlinear in the query, "
            "to numerator and denominator of attention. Keep the adapter or call unload()"
        )

    def merge_adapter(self, *_: Any, **__: Any) -> NoReturn:
        self.merge_and_unload()

    def unload(self) -> Any:
        """Return the base model without the prefix."""
        model = super().unload()
        return detach(model) if find_record(model) is not None else model

    def _enable_adapter_layers(self, enabled: bool = True) -> None:
        super()._enable_adapter_layers(enabled)
        record_of(self.model).enabled = enabled

    @classmethod
    def _remove_adapter_name_from_key(cls, key: str, adapter_name: str) -> str:
        return key.replace(f".{_PREFIX}.{adapter_name}.", f".{_PREFIX}.")

    def _create_and_replace(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("states are put into slots, nothing is replaced")

    def _cast_adapter_dtype(self, adapter_name: str, autocast_adapter_dtype: bool = True) -> None:
        """Leave the dtype: states are float32 or as saved."""


def register() -> None:
    """Register NTK-Attention with peft; repeated calls change nothing."""
    kind: Any = NTKPeftType.ATTANGENT_NTK
    PEFT_TYPE_TO_CONFIG_MAPPING[kind] = NTKPeftConfig
    PEFT_TYPE_TO_TUNER_MAPPING[kind] = NTKTuner
    PEFT_TYPE_TO_PREFIX_MAPPING[kind] = _PREFIX


def _first_states(model: nn.Module, config: NTKConfig, peft_config: NTKPeftConfig) -> dict[str, Any]:
    """Return new states; for an adapter that is being loaded, blank ones of the saved kinds and shapes."""
    if peft_config.states is None:
        return {
            layer.name: new_state(config, layer, i) for i, layer in enumerate(chosen_layers(model, config))
        }
    if not isinstance(peft_config.states, dict):
        raise AttangentError(f"states is {type(peft_config.states).__name__}, expected descriptions by layer")
    check_layers(model, config, peft_config.states)
    layers = {layer.name: layer for layer in attention_layers(model)}
    states = blank_states(peft_config.states)
    for name, state in states.items():
        check_state_fits(layers[name], state)
    return states
