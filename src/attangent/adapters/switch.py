"""Which adapters act: activate one or several, disable all for a while, delete."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

from attangent._core.errors import AttangentError
from attangent.adapters.record import check_known, record_of, slots
from attangent.adapters.saved_modules import saved_to_show, show_saved

_SWITCHING = RLock()


def activate(model: Any, *names: str) -> Any:
    """Let these adapters act, all at once, and train; the others rest.

    Several prefixes stand side by side: their numerators and masses add up. No name leaves the model bare.

    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=20))
    >>> batch = {"input_ids": torch.randint(20, (2, 6))}
    >>> for name in ("one", "other"):
    ...     _ = attach(model, NTKConfig(), name, calibration=batch)
    >>> _ = activate(model, "one")
    >>> active_adapters(model)
    ('one',)
    """
    for name in names:
        check_known(model, name)
    record = record_of(model)
    record.active = tuple(dict.fromkeys(names))
    for slot in slots(model).values():
        slot.active, slot.folded = record.active, None
        for name, state in slot.states.items():
            state.requires_grad_(name in names)
    show_saved(model, saved_to_show(record))
    return model


def active_adapters(model: Any) -> tuple[str, ...]:
    """The names of the adapters that act."""
    return record_of(model).active


@contextmanager
def disabled(model: Any) -> Iterator[Any]:
    """The model without its adapters, for as long as the context lasts.

    It may be nested and entered by several threads: adapters act again when the last of them has left.

    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=20)).eval()
    >>> ids = torch.randint(20, (1, 6))
    >>> bare_logits = model(ids).logits
    >>> _ = attach(model, NTKConfig(), calibration={"input_ids": ids})
    >>> with disabled(model):
    ...     torch.allclose(model(ids).logits, bare_logits)
    True
    """
    _pause(model, 1)
    try:
        yield model
    finally:
        _pause(model, -1)


def _pause(model: Any, more: int) -> None:
    """Open or close one of the contexts during which no adapter acts; the last to close lets them act."""
    with _SWITCHING:
        record = record_of(model)
        record.pauses += more
        for slot in slots(model).values():
            slot.enabled = record.acting
        show_saved(model, saved_to_show(record))


def delete(model: Any, name: str) -> Any:
    """Remove one of several adapters; `detach` removes all and gives the model back as it was."""
    check_known(model, name)
    record = record_of(model)
    if len(record.configs) == 1:
        raise AttangentError(f"{name!r} is the only adapter: call attangent.detach(model) to remove it")
    for slot in slots(model).values():
        if name in slot.states:
            del slot.states[name]
    activate(model, *(active for active in record.active if active != name))
    del record.configs[name]
    record.saved.pop(name, None)
    return model
