"""Random streams: a seed and a name determine a generator; different names give different draws."""

import hashlib

import torch


def generator(seed: int, stream: str) -> torch.Generator:
    """Return a torch generator for the stream of this name under this seed."""
    digest = hashlib.sha256(f"{stream}/{seed}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
