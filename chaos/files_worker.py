"""Readers given spoilt files: `python -m chaos.files_worker SEED START STOP`."""

import random
import shutil
from pathlib import Path

from chaos.readers import READERS
from chaos.serving import Case, serve
from chaos.spoil import OTHER_THINGS, WAYS, put_something_else

_USUAL = ("truncated", "flipped", "other value")
"""Ways that differ from case to case, and come more often."""


def case(seed: int, index: int) -> Case:
    """A good file, spoilt in one way."""
    rng = random.Random(f"{seed}:{index}")
    reader = READERS[index % len(READERS)]
    way = rng.choice((*_USUAL, *_USUAL, *WAYS, *OTHER_THINGS))
    folder = Path("files") / reader.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    path = reader.good(folder)
    if way in WAYS:
        path.write_bytes(WAYS[way](path.read_bytes(), rng))
    else:
        put_something_else(path, way)
    return Case(f"{reader.name} file", [way], lambda: reader.read(folder), finite=False)


if __name__ == "__main__":
    serve(case, warm_up=len(READERS))
