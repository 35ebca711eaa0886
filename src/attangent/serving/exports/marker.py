"""The tokens that stand for a prefix in a request: its name, its digest and padding."""

from collections.abc import Callable, Sequence
from typing import Any

from attangent._core.errors import AttangentError
from attangent.compression.prompt import read_prompt, tokens_of
from attangent.serving.exports.engine_prefix import Marker

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
