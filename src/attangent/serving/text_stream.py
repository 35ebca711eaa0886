"""Turn tokens into text as they arrive, and end a text at a stop string."""

from collections.abc import Sequence
from typing import Any

_UNFINISHED = "\ufffd"
"""A decoder writes this for the first bytes of a letter whose rest is in the next token."""
_MOST_UNFINISHED = 8
"""A letter has at most four bytes; after this many tokens the replacement letter is real."""


class TextStream:
    """The text of a growing list of tokens.

    Text that may be the beginning of a stop string is held back until it is not.

    Args:
        tokenizer: Decodes the tokens.
        stops: Strings that end the text; they are not part of it.
    """

    def __init__(self, tokenizer: Any, stops: Sequence[str] = ()):
        self.tokenizer = tokenizer
        self.stops = tuple(stops)
        self.stopped = False
        self._tokens: list[int] = []
        self._shown = 0
        self._read = 0
        self._held = ""

    def add(self, token: int) -> str:
        """Add a token and return the text that became certain."""
        self._tokens.append(token)
        return self._released(self._new_text(final=False), final=False)

    def finish(self) -> str:
        """Return the text that was held back; call it once, when no token follows."""
        return "" if self.stopped else self._released(self._new_text(final=True), final=True)

    def _new_text(self, final: bool) -> str:
        # Decode with some tokens before the new ones: many tokenizers write a space depending on them.
        before = self._decode(self._tokens[self._shown : self._read])
        text = self._decode(self._tokens[self._shown :])
        pending = len(self._tokens) - self._read
        if text.endswith(_UNFINISHED) and not final and pending < _MOST_UNFINISHED:
            return ""
        self._shown = self._read
        self._read = len(self._tokens)
        return text[len(before) :]

    def _decode(self, tokens: list[int]) -> str:
        return self.tokenizer.decode(tokens, skip_special_tokens=True) if tokens else ""

    def _released(self, text: str, final: bool) -> str:
        self._held += text
        ends = [index for stop in self.stops if (index := self._held.find(stop)) >= 0]
        if ends:
            self.stopped = True
            return self._release(min(ends), rest=False)
        keep = 0 if final else max((_overlap(self._held, stop) for stop in self.stops), default=0)
        return self._release(len(self._held) - keep, rest=True)

    def _release(self, length: int, rest: bool) -> str:
        text = self._held[:length]
        self._held = self._held[length:] if rest else ""
        return text


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of `text` with which `stop` begins."""
    sizes = range(min(len(text), len(stop) - 1), 0, -1)
    return next((size for size in sizes if text.endswith(stop[:size])), 0)
