"""One prefix per row of a batch: serve several tenants, prompts or tasks at once."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError
from attangent.adapters.attaching import Model, attach, detach
from attangent.adapters.config import NTKConfig
from attangent.adapters.layers import attention_layers, bare
from attangent.adapters.record import (
    Record,
    activate,
    check_known,
    delete,
    find_record,
    record_of,
    set_rows,
)
from attangent.attention import Prefix


@runtime_checkable
class Attachable(Protocol):
    """Something that `attach` can put on a model, such as a compressed prompt."""

    @property
    def config(self) -> NTKConfig: ...

    @property
    def states(self) -> Mapping[str, Prefix]: ...


@contextmanager
def batch(model: Model, adapters: Sequence[str | Attachable | None], copies: int = 1) -> Iterator[Model]:
    """Give each row of the batches in a `with` block its own prefix; afterwards the model is as before.

    Every row is computed as if it were alone, with its own position offset. Forward passes, `generate`,
    padding and caches work as usual, and the named adapters can be trained.

    Args:
        model: A transformers model.
        adapters: Per row the name of an attached adapter, a compressed prompt, or None for the base model.
        copies: Number of consecutive rows per entry, as `generate` makes them for num_beams or
            num_return_sequences.

    Yields:
        The model.

    Raises:
        AttangentError: If an adapter is unknown or has saved modules, such as a classifier, which all rows
            share; or if a batch has another number of rows.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=20)).eval()
        >>> ids = torch.randint(20, (2, 6))
        >>> before = model(ids).logits
        >>> _ = attach(model, NTKConfig(features="elu", init="gaussian"), "mine")
        >>> with batch(model, ["mine", None]):
        ...     after = model(ids).logits
        >>> [torch.allclose(a, b, atol=1e-6) for a, b in zip(before, after)]
        [False, True]
    """
    _check_adapters(adapters)
    check_size("copies", copies)
    base = bare(model)
    before = find_record(model)
    attention_layers(base)
    active = () if before is None else before.active
    if before is not None and before.rows is not None:
        raise AttangentError("the model is inside another batch already: end that one first")
    added: list[str] = []
    try:
        names = _named(model, adapters, added)
        record = record_of(model) if names is not None else None
        if record is not None and names is not None:
            activate(model, *(name for name in names if name is not None))
            set_rows(model, record, tuple(name for name in names for _ in range(copies)))
        hook = base.register_forward_pre_hook(_RowCheck(len(adapters) * copies, copies), with_kwargs=True)
        try:
            yield model
        finally:
            hook.remove()
    finally:
        _restore(model, before, added, active)


def _check_adapters(adapters: Any) -> None:
    if not isinstance(adapters, Sequence) or isinstance(adapters, str) or len(adapters) == 0:
        raise AttangentError(
            f"adapters is {adapters!r}, expected a list with a name, a compressed prompt or None per row"
        )
    for adapter in adapters:
        ready = hasattr(adapter, "config") and hasattr(adapter, "states")
        if adapter is not None and not isinstance(adapter, str) and not ready:
            raise AttangentError(
                f"a row's adapter is {type(adapter).__name__}, expected a name, a compressed prompt or None"
            )


def _named(model: Any, adapters: Sequence[Any], added: list[str]) -> list[str | None] | None:
    """Attach unattached adapters and return all by name; None if no row has one and the model is bare."""
    for name in adapters:
        if isinstance(name, str):
            check_known(model, name)
            _check_alone(record_of(model), name)
    attached: dict[int, str] = {}
    for adapter in adapters:
        if adapter is not None and not isinstance(adapter, str) and id(adapter) not in attached:
            name = _free_name(find_record(model))
            attach(model, adapter.config, name, states=adapter.states)
            added.append(name)
            attached[id(adapter)] = name
    if find_record(model) is None:
        return None
    return [attached.get(id(adapter)) if not isinstance(adapter, str) else adapter for adapter in adapters]


def _check_alone(record: Record, name: str) -> None:
    if record.saved.get(name):
        modules = ", ".join(record.configs[name].modules_to_save)
        raise AttangentError(
            f"adapter {name!r} has saved modules ({modules}), but all rows of a batch share the model's: use "
            "adapters without modules_to_save"
        )


def _free_name(record: Record | None) -> str:
    taken = () if record is None else record.configs
    return next(name for i in range(len(taken) + 1) if (name := f"row-{i}") not in taken)


def _restore(model: Any, before: Record | None, added: list[str], active: tuple[str, ...]) -> None:
    record = find_record(model)
    if record is None:
        return
    set_rows(model, record, None)
    if before is None:
        detach(model)
        return
    for name in added:
        delete(model, name)
    activate(model, *active)


class _RowCheck:
    """A forward pre-hook that checks the number of rows of a batch."""

    def __init__(self, rows: int, copies: int):
        self.rows = rows
        self.copies = copies

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        inputs = [kwargs.get(name) for name in ("input_ids", "inputs_embeds", "decoder_input_ids")]
        tensor = next((value for value in [*inputs, *args] if isinstance(value, Tensor)), None)
        if tensor is not None and len(tensor) != self.rows:
            raise AttangentError(
                f"the batch has {len(tensor)} rows, but adapters are given for {self.rows}: pass one per "
                f"row; if beams or sequences multiply rows, pass their number as copies (got {self.copies})"
            )
