"""A place that nothing can leave: all file systems are read-only but for one scratch folder.

The fuzzers pass hostile output paths. Linux with `unshare` and either root or user namespaces is needed;
elsewhere the run says that it has no sandbox.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

_INSIDE = "ATTANGENT_DRILL_INSIDE"
_SCRIPT = """
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cut -d' ' -f5 /proc/self/mountinfo | while read -r place; do
    case "$place" in "$1"|"$1"/*|/proc|/proc/*|/dev|/dev/pts|/dev/mqueue) ;;
    *) mount -o remount,bind,ro "$place" 2>/dev/null || true ;; esac
done
mount -t tmpfs -o size=1g tmpfs /dev/shm
shift
exec "$@"
"""


def enter(scratch: Path) -> None:
    """Begin this program anew inside the sandbox; returns inside it, or where there is none to be had."""
    if os.environ.get(_INSIDE) or not _is_possible():
        return
    for name in ("home", "tmp"):
        (scratch / name).mkdir(parents=True, exist_ok=True)
    own = {"HOME": str(scratch / "home"), "TMPDIR": str(scratch / "tmp"), _INSIDE: "yes"}
    command = [sys.executable, *sys.orig_argv[1:]]
    arguments = [*_unshare(), "sh", "-c", _SCRIPT, "sh", str(scratch.resolve()), *command]
    os.execvpe("unshare", arguments, {**os.environ, **own})


def is_closed(outside: Path) -> bool:
    """Whether writing to a folder outside the scratch folder fails."""
    probe = outside / ".chaos-probe"
    try:
        probe.touch()
    except OSError:
        return True
    probe.unlink()
    return False


def _unshare() -> list[str]:
    return ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]


def _is_possible() -> bool:
    if not shutil.which("unshare"):
        return False
    probe = [*_unshare(), "sh", "-c", "mount --make-rprivate / && mount -t tmpfs tmpfs /dev/shm"]
    return subprocess.run(probe, capture_output=True).returncode == 0
