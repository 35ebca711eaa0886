"""The models that requests can name: the base model, prefixes and tuned adapters."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attangent._core.errors import AttangentError
from attangent.adapters.attaching import check_name, remove
from attangent.adapters.files.save import load_adapter
from attangent.compression.prompt import BareReader, Reader, check_model
from attangent.compression.result import load_compressed, read_notes
from attangent.serving.protocol import ApiError
from attangent.serving.scheduler import BASE, Scheduler
from attangent.tuning.folders.tuned import description_of, load_generator, weights_folder


@dataclass(frozen=True)
class ServedModel:
    """A model that a request can name.

    Attributes:
        name: The name.
        kind: `model`, `prefix` or `adapter`.
        network: The network in the engine.
        adapter: The adapter on the network; None for the bare network.
        reader: Turns messages into tokens.
        tokenizer: The tokenizer.
        room: Maximum number of tokens of a request and its answer; None without a limit.
        created: Time in seconds since 1970.
    """

    name: str
    kind: str
    network: str
    adapter: str | None
    reader: Reader
    tokenizer: Any
    room: int | None
    created: int = field(default_factory=lambda: int(time.time()))

    def as_json(self) -> dict[str, Any]:
        """Return the entry of /v1/models."""
        about = {"id": self.name, "object": "model", "created": self.created, "owned_by": "attangent"}
        return about | {"kind": self.kind, "max_model_len": self.room}


class Catalog:
    """All served models by name. Networks change only in the engine's thread.

    Args:
        engine: The engine, not yet started.
        name: Name of the base model: a Hub id, or the folder, of which only the last part is shown.
        network: A bare causal language model.
        tokenizer: Its tokenizer.
    """

    def __init__(self, engine: Scheduler, name: str, network: Any, tokenizer: Any):
        check_model(network, tokenizer)
        self.engine = engine
        self.network = network
        self.tokenizer = tokenizer
        self.base = Path(name).resolve().name if Path(name).is_dir() else name
        self._source = name
        self._models: dict[str, ServedModel] = {}
        engine.add_network(BASE, network, tokenizer)
        self._add(self.base, "model", BASE, None, BareReader(), tokenizer)

    def all(self) -> list[ServedModel]:
        """Return all models, the base model first."""
        return list(self._models.values())

    def get(self, name: str) -> ServedModel:
        """Return a model.

        Raises:
            ApiError: If there is none of this name.
        """
        model = self._models.get(name)
        if model is None:
            known = ", ".join(self._models)
            raise ApiError(
                404, f"there is no model {name!r:.80}; use one of {known:.400}", "model", "model_not_found"
            )
        return model

    def __contains__(self, name: str) -> bool:
        return name in self._models

    def add_prefix(self, name: str, folder: Path) -> None:
        """Serve the compressed prompt of a folder.

        Raises:
            AttangentError: If the folder does not fit the model or the name is taken.
        """
        self._check_free(name)
        notes = read_notes(folder)
        reader = self._in_engine(lambda: load_compressed(self.network, self.tokenizer, folder, name))
        self._add(name, "prefix", BASE, name, reader, self.tokenizer, notes["prompt_tokens"])

    def add_adapter(self, name: str, folder: Path) -> None:
        """Serve a folder that `attangent tune --task causal-lm` wrote; call it before the engine starts.

        A prefix state shares the batch of the base model. Other methods change weights, so each gets a
        separate network.

        Raises:
            AttangentError: If the folder does not fit the model or the name is taken.
        """
        self._check_free(name)
        about = description_of(folder)
        if about.kind == "causal-lm" and about.method == "ntk" and not (about.quantised or about.beside):
            load_adapter(self.network, weights_folder(folder), name)
            self._add(name, "adapter", BASE, name, BareReader(), self.tokenizer)
            return
        network, tokenizer = load_generator(folder, self._source)
        if (
            getattr(network, "active_peft_config", None) is not None
            and network.active_peft_config.is_prompt_learning
        ):
            raise AttangentError(
                f"{folder} adds tokens to every input, which cannot be served; tune with ntk"
            )
        self.engine.add_network(name, network.eval().requires_grad_(False), tokenizer)
        self._add(name, "adapter", name, None, BareReader(), tokenizer)

    def remove(self, name: str) -> None:
        """Stop to serve a prefix; answers that use it are finished first."""
        if self._models.pop(name, None) is not None:
            self.engine.call(lambda: self._drop(name))

    def _drop(self, name: str) -> None:
        if self.engine.uses(BASE, name):
            self.engine.call(lambda: self._drop(name))
            return
        self.engine.batches[BASE].reuse.forget(name)
        remove(self.network, name)

    def _in_engine(self, function: Any) -> Any:
        return self.engine.call(function).result() if self.engine.is_alive else function()

    def _check_free(self, name: str) -> None:
        check_name(name)
        if name in self._models:
            raise AttangentError(f"the name {name!r} is taken; choose another")

    def _add(
        self,
        name: str,
        kind: str,
        network: str,
        adapter: str | None,
        reader: Reader,
        tokenizer: Any,
        offset: int = 0,
    ) -> None:
        config = self.engine.batches[network].network.config.get_text_config()
        context = getattr(config, "max_position_embeddings", None)
        room = None if context is None else context - offset
        self._models[name] = ServedModel(name, kind, network, adapter, reader, tokenizer, room)
