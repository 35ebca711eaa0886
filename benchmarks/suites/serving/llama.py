"""A server of llama.cpp, started in an interpreter that has xllamacpp."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

VARIABLES = ("ATTANGENT_LLAMA_PYTHON", "ATTANGENT_LLAMA_GGUF")
_SERVER = """
import sys, time
import xllamacpp

parameters = xllamacpp.CommonParams()
parameters.model.path, parameters.slot_save_path, kind = sys.argv[1:]
parameters.port = 0
parameters.n_parallel = 1
parameters.n_ctx = 4096
parameters.endpoint_slots = True
parameters.cpuparams.n_threads = 1
parameters.cpuparams_batch.n_threads = 1
parameters.cache_type_k = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{kind}")
parameters.cache_type_v = parameters.cache_type_k
server = xllamacpp.Server(parameters)
print("ADDRESS", server.listening_address, flush=True)
sys.stdin.read()
"""


def is_there() -> bool:
    """Whether the variables name an interpreter with xllamacpp and a GGUF file."""
    return all(os.environ.get(name) for name in VARIABLES)


@contextmanager
def llama_server(slots: Path, cache: str = "F32") -> Iterator[str]:
    """Run a server with keys and values of type F32, F16 or Q8_0; yield its address."""
    python, gguf = (os.environ[name] for name in VARIABLES)
    slots.mkdir(parents=True, exist_ok=True)
    pipes: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.DEVNULL,
    }
    command = [python, "-c", _SERVER, gguf, f"{slots}/", cache]
    # Rotated 8-bit caches cannot be filled from outside.
    environment = os.environ | {"LLAMA_ATTN_ROT_DISABLE": "1"}
    with subprocess.Popen(command, text=True, env=environment, **pipes) as process:
        try:
            assert process.stdout is not None
            lines = (line for line in process.stdout if line.startswith("ADDRESS"))
            address = next(lines, None)
            if address is None:
                sys.exit("llama.cpp's server did not start")
            yield address.split()[1]
        finally:
            process.kill()
