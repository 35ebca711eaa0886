"""Compress prefixes one after the other in a separate process, which the server watches."""

import json
import logging
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attangent._core.errors import AttangentError
from attangent._core.files import only_writer, read_json, real_folder
from attangent.serving.prefix_store import PREFIX, REQUEST, PrefixStore, StoredPrefix

_log = logging.getLogger("attangent.serving")
_LONGEST_ERROR = 2000
_PATIENCE = 60.0
_NICE = 10


class Compressor:
    """A thread that starts one compressing process at a time.

    A process that is killed with the server resumes when the server starts again.

    Args:
        store: The prefixes.
        model: The base model: a folder or a Hub id.
        on_ready: Called with every prefix that is ready.
    """

    command = (sys.executable, "-m", "attangent.serving.compressor")

    def __init__(self, store: PrefixStore, model: str, on_ready: Callable[[StoredPrefix], None]):
        self.store = store
        self.model = model
        self.on_ready = on_ready
        self._jobs: queue.Queue[str | None] = queue.Queue()
        self._process: subprocess.Popen[str] | None = None
        self._current: str | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="attangent-compressor", daemon=True)

    def start(self) -> None:
        """Start the thread with everything that was not finished before."""
        for prefix in self.store.all():
            if prefix.status == "waiting":
                self._jobs.put(prefix.id)
        self._thread.start()

    def add(self, prefix: StoredPrefix) -> None:
        """Compress a prefix after those that are waiting."""
        self._jobs.put(prefix.id)

    def cancel(self, id: str) -> None:
        """End the compression of a prefix that is being deleted."""
        process = self._process
        if self._current == id and process is not None:
            process.kill()

    def stop(self) -> None:
        """End the thread and its process; the next start resumes."""
        self._stopping = True
        process = self._process
        if process is not None:
            process.kill()
        self._jobs.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while (id := self._jobs.get()) is not None and not self._stopping:
            try:
                self._compress(id)
            except Exception as error:
                _log.exception("a compression failed")
                self.store.finish(id, f"the compression failed: {error}"[:_LONGEST_ERROR])

    def _compress(self, id: str) -> None:
        prefix = next((each for each in self.store.all() if each.id == id), None)
        if prefix is None:
            return
        self._current = id
        self.store.update(id, status="compressing", stage="loading the model")
        try:
            error = self._watch(id)
        finally:
            self._process = None
            self._current = None
        if self._stopping:
            return
        if error is None:
            self.on_ready(self.store.get(id))  # first, so that whoever reads "ready" can use it
        self.store.finish(id, error)

    def _watch(self, id: str) -> str | None:
        """Run the process of a compression; return why it failed, or None."""
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        outcome: dict[str, Any] = {}
        with subprocess.Popen(self.command, **pipes) as process:
            self._process = process
            assert process.stdin is not None
            assert process.stdout is not None
            # The process ends when this pipe closes, so that it does not outlive the server.
            process.stdin.write(
                json.dumps({"model": self.model, "folder": str(self.store.folder / id)}) + "\n"
            )
            process.stdin.flush()
            for line in process.stdout:
                outcome = json.loads(line)
                self._note(id, outcome)
        if outcome.get("ready"):
            return None
        return outcome.get("error") or f"the compressing process ended with code {process.returncode}"

    def _note(self, id: str, news: dict[str, Any]) -> None:
        if "stage" in news:
            self.store.update(id, stage=news["stage"], done=news["done"], total=news["total"])
        elif "size" in news:
            self.store.add_point(id, news["size"], news["kept"], news["asked"])


def main() -> None:
    """Compress one prefix: `python -m attangent.serving.compressor`, as the server starts it.

    Read one JSON line, {"model": ..., "folder": ...}, and write the progress as JSON lines; the last one says
    how it ended.
    """
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
