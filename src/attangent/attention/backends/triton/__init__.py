"""Attention with a prefix on GPUs, in Triton. Import `attention` only if `is_installed()`."""

from importlib.util import find_spec


def is_installed() -> bool:
    """Return whether Triton can be imported; without it GPUs use plain operations."""
    return find_spec("triton") is not None
