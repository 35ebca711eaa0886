"""Read a compressed prompt whose states are an ordinary KV cache: the same size in all heads, no masses."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attangent._core.errors import AttangentError
from attangent._core.files import read_json
from attangent.adapters import attention_layers
from attangent.adapters.files.format import CONFIG
from attangent.adapters.files.read import read_adapter
from attangent.compression.prompt import fingerprint, read_prompt, tokens_of
from attangent.compression.result import CompressedPrompt, Rotation, read_notes
from attangent.serving.exports.engine_prefix import EnginePrefix, Layer, Marker, check_name, digest_of

_LARGEST_CONFIG = 1 << 24


def base_model(folder: Path) -> str:
    """Check that a folder holds a prompt that engines can hold; return the name of its model.

    Reads only JSON, so that a wrong folder is reported before a model is loaded.

    Raises:
        AttangentError: If the prompt was compressed by another method than `plain`.
    """
    notes = read_notes(folder)
    config = read_json(folder / CONFIG, _LARGEST_CONFIG)
    method = notes.get("method")
    if method != "plain" and not notes.get("exact"):
        raise AttangentError(
            f"the prompt in {folder} was compressed by {method!r}, whose heads differ in size and "
            "masses; engines need the same in all heads: run `attangent compress --method plain`"
        )
    name = config.get("base_model_name_or_path")
    return name if isinstance(name, str) else ""


def plain_prefix(model: Any, tokenizer: Any, folder: Path, name: str) -> EnginePrefix:
    """Return the prefix of a folder that `attangent compress --method plain` wrote.

    Args:
        model: The bare model for which the prompt was compressed.
        tokenizer: Its tokenizer.
        folder: The folder.
        name: Name of the prefix in the engine.

    Returns:
        The prefix, its keys rotated to positions 0 to size - 1.

    Raises:
        AttangentError: If the folder, the model and the tokenizer do not belong together.
    """
    check_name(name)
    notes = read_notes(folder)
    if notes["tokenizer"] != fingerprint(tokenizer):
        raise AttangentError(
            f"the prompt in {folder} was compressed with another tokenizer; pass its model with --model"
        )
    stored = read_adapter(model, folder).states
    if len(stored) != model.config.num_hidden_layers:
        raise AttangentError(
            f"the prompt in {folder} has states for {len(stored)} of {model.config.num_hidden_layers} "
            "layers; engines need all of them"
        )
    # A resumed compression writes them in the order of their names, in which layer 10 comes before layer 2.
    states = {layer.name: stored[layer.name] for layer in attention_layers(model)}
    prompt = CompressedPrompt(
        states,
        notes["prompt_tokens"],
        notes["size"],
        str(notes.get("method")),
        tuple(notes["roles"]),
        notes["tokenizer"],
        rotation=Rotation.of(model),
    )
    cache = prompt.cache()
    # A cache has (1, heads, size, d) per layer; engines count tokens first.
    layers = tuple(
        Layer(*(tensor[0].transpose(0, 1).float().contiguous() for tensor in (each.keys, each.values)))
        for each in cache.layers
    )
    size = len(layers[0].keys)
    marker = make_marker(tokenizer, prompt.roles, size, name, digest_of(layers))
    model_name = getattr(model.config, "_name_or_path", "") or ""
    return EnginePrefix(name, marker, layers, model_name, prompt.position_offset)


# One of these adds exactly one token in every tokenizer tried.
_UNITS = (" .", " x", " 0", ".", "x", "0", "\n")


def make_marker(tokenizer: Any, roles: Sequence[str], size: int, name: str, digest: str) -> Marker:
    """Return messages, or a text if there are no roles, of exactly `size` tokens.

    Args:
        tokenizer: The model's tokenizer.
        roles: Roles of the prompt's messages; none for plain text.
        size: Number of tokens.
        name: Name of the prefix.
        digest: Digest of its content.

    Returns:
        The marker.

    Raises:
        AttangentError: If the name and the digest alone have more tokens.
    """

    def messages(text: str) -> list[dict[str, str]]:
        rest = [{"role": role, "content": "."} for role in roles[1:]]
        return [{"role": roles[0], "content": text}, *rest] if roles else []

    def encoded(text: str) -> list[int]:
        content = messages(text) if roles else text
        return read_prompt(tokenizer, content)[0].tolist()

    start = f"{name} {digest}"
    text = _padded(start, size, encoded)
    marker = Marker(encoded(text), messages(text))
    _check_followed(tokenizer, marker)
    return marker


def _padded(start: str, size: int, encoded: Callable[[str], list[int]]) -> str:
    """Return `start` and as many equal units as make `size` tokens."""
    least = len(encoded(start))
    if least > size:
        raise AttangentError(
            f"the prefix has {size} tokens, but its name and digest take {least}; compress with "
            f"--size {least} or more, or pass a shorter --name"
        )
    for unit in _UNITS:
        text = start
        # Counting again after each round corrects units that merge with their neighbours.
        for _ in range(3):
            text += unit * max(0, size - len(encoded(text)))
        if len(encoded(text)) == size:
            return text
    raise AttangentError(
        f"no text of exactly {size} tokens was found for this tokenizer; compress with another --size"
    )


def _check_followed(tokenizer: Any, marker: Marker) -> None:
    """Check that the chat template leaves the marker's tokens unchanged when a question follows."""
    if not marker.messages:
        return
    turns = [*marker.messages, {"role": "user", "content": "?"}]
    text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    if tokens_of(tokenizer, text)[: len(marker.ids)].tolist() != marker.ids:
        raise AttangentError(
            "the chat template changes earlier messages when one is added, so engines cannot reuse them; "
            "compress the rendered prompt with --plain"
        )
