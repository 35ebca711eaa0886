"""Kill `attangent tune` again and again: `python -m benchmarks.kills FOLDER [KILLS]`.

A small BERT is tuned with a search, once without a break and once with SIGKILL whenever the run's folder has
changed as often as was drawn. Both must end in the same numbers and the same weights.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

_TIMED = ("seconds", "peak_megabytes")
_LOOKED_EVERY = 0.002


def command(folder: Path, out: Path) -> list[str]:
    files = (
        "--train",
        folder / "rows.jsonl",
        "--eval",
        folder / "rows.jsonl",
        "--config",
        folder / "run.toml",
    )
    given = ("tune", "--model", folder / "model", *files, "--search", "--quiet", "--out", out)
    return [sys.executable, "-m", "attangent", *map(str, given)]


def prepare(folder: Path) -> None:
    """A model, its rows and a config that writes many checkpoints."""
    from tests.adapters.tiny import save_bert, write_rows

    folder.mkdir(parents=True, exist_ok=True)
    save_bert(folder / "model")
    write_rows(folder / "rows.jsonl", 64)
    (folder / "run.toml").write_text("[training]\nepochs = 6\nbatch = 8\ncheckpoint_steps = 2\n")


def listing(out: Path) -> set[tuple[str, int]]:
    """What stands below a folder; files and folders may come and go while it is read."""
    found = set()
    for place, _, names in os.walk(out):
        found.add((place, 0))
        for name in names:
            with contextlib.suppress(OSError):
                found.add((f"{place}/{name}", os.stat(f"{place}/{name}").st_size))
    return found


def killed(process: "subprocess.Popen[bytes]", out: Path, changes: int) -> bool:
    """Whether the process was killed after so many changes of the folder, before it ended by itself."""
    seen = listing(out)
    while process.poll() is None:
        now = listing(out)
        if now != seen:
            seen, changes = now, changes - 1
        if changes <= 0:
            process.send_signal(signal.SIGKILL)
            process.wait()
            return True
        time.sleep(_LOOKED_EVERY)
    if process.returncode:
        raise SystemExit(f"tune ended with {process.returncode}")
    return False


def ends(out: Path) -> tuple[dict[str, object], bytes]:
    """What a run ended in: its metrics without times, and its weights."""
    metrics = json.loads((out / "seed-0/metrics.json").read_text())
    kept = {name: value for name, value in metrics.items() if name not in _TIMED}
    return kept, (out / "seed-0/adapter/adapter_model.safetensors").read_bytes()


def main(folder: Path, kills: int = 10) -> None:
    prepare(folder)
    subprocess.run(command(folder, folder / "whole"), check=True)
    draw, out, done = random.Random(0), folder / "cut", 0
    while True:
        process = subprocess.Popen(command(folder, out))
        changes = draw.randint(1, 12) if done < kills else 10**9
        if not killed(process, out, changes):
            break
        done += 1
        print(f"killed {done} times", flush=True)
    same = ends(out) == ends(folder / "whole")
    print(f"{done} kills: {'the same numbers and weights' if same else 'OTHER numbers or weights'}")
    raise SystemExit(0 if same else 1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
