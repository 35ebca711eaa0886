"""Switch adapters: activate one or several, disable all for a while, delete one."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

from attangent._core.errors import AttangentError
from attangent.adapters.record import check_known, record_of, saved_to_show, show_saved, slots

_SWITCHING = RLock()


def activate(model: Any, *names: str) -> Any:
    """Let these adapters act and train, all at once; the others are inactive.

    The numerators and masses of several prefixes add up.

    Args:
        model: A model with adapters; it is changed in place.
        *names: Names of attached adapters; none leaves the base model.

    Returns:
        The model.

    Raises:
        AttangentError: If a name is unknown.

    Example:
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
        slot.active = record.active
        slot.folded = None
        for name, state in slot.states.items():
            state.requires_grad_(name in names)
    show_saved(model, saved_to_show(record))
    return model


def active_adapters(model: Any) -> tuple[str, ...]:
    """Return the names of the adapters that act.

    Args:
        model: A model with adapters.

    Returns:
        Their names.

    Raises:
        AttangentError: If the model has no adapter.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=20))
        >>> _ = attach(model, NTKConfig(features="elu"), "mine")
        >>> active_adapters(model)
        ('mine',)
    """
    return record_of(model).active


@contextmanager
def disabled(model: Any) -> Iterator[Any]:
    """Disable all adapters inside a `with` block.

    Blocks may be nested and entered by several threads: adapters act again once the last block has ended.

    Args:
        model: A model with adapters.

    Yields:
        The model.

    Raises:
        AttangentError: If the model has no adapter.

    Example:
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


def _pause(model: Any, change: int) -> None:
    """Count open `disabled` blocks; adapters act when there is none."""
    with _SWITCHING:
        record = record_of(model)
        record.pauses += change
        for slot in slots(model).values():
            slot.enabled = record.acting
        show_saved(model, saved_to_show(record))


def delete(model: Any, name: str) -> Any:
    """Remove one of several adapters; `detach` removes all and restores the model.

    Args:
        model: A model with adapters; it is changed in place.
        name: The adapter to remove.

    Returns:
        The model.

    Raises:
        AttangentError: If the name is unknown or it is the only adapter.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=20))
        >>> for name in ("one", "other"):
        ...     _ = attach(model, NTKConfig(features="elu"), name)
        >>> _ = delete(model, "one")
        >>> active_adapters(model)
        ('other',)
    """
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
