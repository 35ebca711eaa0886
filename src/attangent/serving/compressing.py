"""The process that compresses one prefix: `python -m attangent.serving.compressing`, started by the server.

It reads one JSON line, {"model": ..., "folder": ...}, and writes its progress as JSON lines.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from attangent._core.errors import AttangentError
from attangent._core.files import only_writer, read_json, real_folder

_PATIENCE = 60.0
_NICE = 10


def main() -> None:
    """Compress, and report how it ended in the last line."""
    # What libraries print must not mix with the report.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_server, daemon=True).start()
    os.nice(_NICE)  # answers come first

    def report(**news: Any) -> None:
        out.write(json.dumps(news) + "\n")

    try:
        _compress(request["model"], Path(request["folder"]), report)
    except (AttangentError, OSError, MemoryError) as error:
        report(error=str(error) or type(error).__name__)
        sys.exit(1)
    report(ready=True)


def _end_with_server() -> None:
    """End this process when the server has closed the pipe, by whatever end."""
    sys.stdin.read()
    os._exit(1)


def _compress(model: str, folder: Path, report: Any) -> None:
    from attangent.adapters.hub import load_causal_lm
    from attangent.compression.entry import compress_to_folder
    from attangent.compression.prompt import as_prompt
    from attangent.compression.request import CompressionRequest
    from attangent.compression.size_search import KEPT
    from attangent.serving.prefix_store import PREFIX, REQUEST

    def progress(name: str, done: int, total: int) -> None:
        if name.startswith(KEPT):
            report(size=int(name.removeprefix(KEPT)), kept=done, asked=total)
        else:
            report(stage=name, done=done, total=total)

    request = read_json(folder / REQUEST)["request"]
    network, tokenizer = load_causal_lm(model)
    prompt = as_prompt(request["text"], tokenizer)
    out = real_folder(folder / PREFIX)
    _wait_for_writer(out)
    compress_to_folder(
        network, tokenizer, CompressionRequest(prompt, request["keep"], request["size"]), out, progress
    )


def _wait_for_writer(folder: Path) -> None:
    """Wait until the process of a killed server has ended, too."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            with only_writer(folder, "compression"):
                return
        except AttangentError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


if __name__ == "__main__":
    main()
