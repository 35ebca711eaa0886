"""Run claims: pick what is missing in the run folder, measure it, write each finding as it arrives.

A check always runs on one thread. So N workers use N cores, and the order of every sum, hence every digit of
a finding, is the same in this process, in worker processes and on a Dask cluster.
"""

import hashlib
import platform
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path

from attangent._core.errors import AttangentError
from attangent._core.files import only_writer, real_folder
from attangent._core.parallel import ATTEMPTS, in_processes
from attangent._core.progress import Bars
from attangent.audit.checks import is_outdated
from attangent.audit.claims import FIRST_SEEDS, PROFILES, Claim, Settings
from attangent.audit.code import code_version
from attangent.audit.finding import Finding
from attangent.audit.proofs import checked
from attangent.audit.registry import select
from attangent.audit.results import Run
from attangent.audit.storing import FindingRecord, Origin, Store
from attangent.data.places import data_file

_DESCRIPTION = sorted({field.name for field in fields(Origin)} & {field.name for field in fields(Claim)})
"""The texts of a claim that its findings store."""
MOST_SEEDS = 100_000
ABSENT = "absent"
"""The digest of a data file that is not there."""


@dataclass(frozen=True)
class AuditRequest:
    """Which claims to run, and how; see `run` for the fields."""

    ids: tuple[str, ...] = ()
    paper: str | None = None
    profile: str = "quick"
    seeds: int | None = None
    first_seed: int | None = None
    jobs: int = 1
    dask: str | None = None
    out: str | Path | None = None
    force: bool = False
    quiet: bool = True

    def __post_init__(self) -> None:
        if self.profile not in PROFILES:
            raise AttangentError(f"unknown profile {self.profile!r}; expected one of {', '.join(PROFILES)}")
        if self.seeds is not None and not 1 <= self.seeds <= MOST_SEEDS:
            raise AttangentError(f"seeds must be between 1 and {MOST_SEEDS:,} (got {self.seeds:,})")
        if self.first_seed is not None and self.first_seed < 0:
            raise AttangentError(f"first_seed must be at least 0 (got {self.first_seed})")
        if self.jobs < 1:
            raise AttangentError(f"jobs must be at least 1 (got {self.jobs})")

    @property
    def folder(self) -> Path:
        return Path(self.out if self.out is not None else f"audit-{self.profile}")

    def seeds_for(self, claim: Claim) -> range:
        start = FIRST_SEEDS[self.profile] if self.first_seed is None else self.first_seed
        return range(start, start + (claim.seeds_of(self.profile) if self.seeds is None else self.seeds))


@dataclass(frozen=True)
class CheckTask:
    """A claim to check, and the origin of the finding: settings, seed and code."""

    claim: Claim
    origin: Origin

    @property
    def name(self) -> str:
        return f"{self.claim.id} seed {self.origin.seed}"


@dataclass(frozen=True)
class CheckOutcome:
    """The outcome of a task: a finding, or the traceback of its crash."""

    seconds: float
    finding: Finding | None
    traceback: str = ""


def run(
    ids: Iterable[str] = (),
    *,
    paper: str | None = None,
    profile: str = "quick",
    seeds: int | None = None,
    first_seed: int | None = None,
    jobs: int = 1,
    dask: str | None = None,
    out: str | Path | None = None,
    force: bool = False,
    quiet: bool = True,
) -> Run:
    """Audit claims and return their findings. Findings that the folder already holds are not recomputed.

    Args:
        ids: Claim ids or patterns such as `P2/lemma-*`; all claims by default.
        paper: Run only the claims of this paper, for example "P2".
        profile: "quick" (minutes) or "full" (hours).
        seeds: Number of seeds per claim; every claim has its own default.
        first_seed: The first seed; by default 0 in the quick profile and 1000 in the full one.
        jobs: Number of checks that run at once.
        dask: Address of a Dask scheduler; its workers then run the checks.
        out: Folder of the run; audit-PROFILE by default.
        force: Recompute existing findings.
        quiet: Show no progress bar.

    Returns:
        The findings of the selected claims.

    Raises:
        AttangentError: If a claim is unknown, a number is out of range, or the folder cannot be used.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result = run(["P2/definition-3.6"], seeds=1, out=folder)
        >>> [(result.claim, result.verdict.value) for result in result.results()]
        [('P2/definition-3.6', 'holds')]
    """
    request = AuditRequest(tuple(ids), paper, profile, seeds, first_seed, jobs, dask, out, force, quiet)
    return run_in_folder(request)[0]


def run_in_folder(request: AuditRequest) -> tuple[Run, Run]:
    """Return the requested findings, and all findings that the folder holds. Each is read once."""
    wanted = [task for claim in select(request.ids, request.paper) for task in _tasks(claim, request)]
    folder = real_folder(request.folder)
    store = Store(folder)
    with only_writer(folder, "audit"):
        store.prepare(request.profile)
        present, problems = _tidy(store, wanted)
        missing = wanted if request.force else [task for task in wanted if not _is_current(present, task)]
        present |= _measure(store, missing, request)
        failures = tuple(store.read_failures())
    everything = Run(folder, request.profile, tuple(present[stem] for stem in sorted(present)), failures, {})
    return _selection(everything, wanted, problems), everything


def _selection(everything: Run, wanted: list[CheckTask], problems: dict[Path, str]) -> Run:
    names = {(task.claim.id, task.origin.seed) for task in wanted}
    return replace(
        everything,
        records=tuple(r for r in everything.records if (r.origin.claim, r.origin.seed) in names),
        failures=tuple(f for f in everything.failures if (f["claim"], f["seed"]) in names),
        problems=problems,
    )


def _tasks(claim: Claim, request: AuditRequest) -> Iterator[CheckTask]:
    settings = claim.settings(request.profile)
    if claim.data:
        settings |= {"data": data_digests(claim.data)}
    code = code_version(claim.module)
    for seed in request.seeds_for(claim):
        origin = Origin(
            claim=claim.id,
            profile=request.profile,
            settings=dict(settings),
            seed=seed,
            code=code,
            **{name: getattr(claim, name) for name in _DESCRIPTION},
        )
        yield CheckTask(claim, origin)


def data_digests(names: Iterable[str]) -> dict[str, str]:
    """Return a digest of each data file, or `absent`, to distinguish findings on different data."""
    return {name: _digest(data_file(name)) for name in names}


def _digest(path: Path | None) -> str:
    if path is None:
        return ABSENT
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _tidy(store: Store, wanted: list[CheckTask]) -> tuple[dict[str, FindingRecord], dict[Path, str]]:
    """Return the folder's findings by name, after setting aside those that cannot be used.

    These are files that cannot be trusted, and findings of the wanted claims by other code with other seeds.
    """
    records, problems = store.read_all()
    current = {task.claim.id: task.origin.code for task in wanted}
    stems = {task.origin.stem for task in wanted}
    retained = {}
    for record in records:
        code = current.get(record.origin.claim, record.origin.code)
        if record.origin.stem not in stems and record.origin.code != code:
            problems[store.findings / f"{record.origin.stem}.json"] = "it was made by other code"
        else:
            retained[record.origin.stem] = record
    return retained, {store.set_aside(path): f"{path.name}: {reason}" for path, reason in problems.items()}


def _is_current(present: dict[str, FindingRecord], task: CheckTask) -> bool:
    record = present.get(task.origin.stem)
    return record is not None and record.origin.key == task.origin.key and not is_outdated(record.finding)


def _measure(store: Store, missing: list[CheckTask], request: AuditRequest) -> dict[str, FindingRecord]:
    """Run the missing tasks, write their findings, and return the findings by name."""
    longest_first = sorted(missing, key=lambda task: -task.claim.seconds)
    versions = _versions()
    records = {}
    expected = {task.name: task.claim.seconds for task in longest_first}
    with progress_bar(expected, request.quiet) as advance:
        for task, outcome in execute(longest_first, request.jobs, request.dask):
            if outcome.finding is None:
                store.write_failure(task.origin, outcome.traceback)
            else:
                record = FindingRecord(task.origin, outcome.finding, outcome.seconds, versions)
                records[task.origin.stem] = store.write(record)
            advance(task.name)
    return records


def _versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("attangent", "torch", "numpy", "scipy")}
    return {"python": platform.python_version(), **packages}


@contextmanager
def progress_bar(expected: dict[str, float], quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show the progress of tasks with these expected seconds; call the yielded function when one is done."""
    waiting = dict(expected)
    total = sum(expected.values())

    def show() -> None:
        bars.show(
            "audit",
            done=total - sum(waiting.values()),
            total=total,
            label=next(iter(waiting), "done"),
            note=f"{len(expected) - len(waiting)} of {len(expected)}",
        )

    def advance(name: str) -> None:
        waiting.pop(name)
        show()

    with Bars(quiet or not expected) as bars:
        show()
        yield advance


def execute(
    tasks: list[CheckTask], jobs: int = 1, dask: str | None = None
) -> Iterator[tuple[CheckTask, CheckOutcome]]:
    """Run the tasks and yield each with its outcome as soon as it arrives, in no particular order."""
    if dask is not None:
        from attangent._core.parallel import on_cluster

        outcomes = on_cluster(measure, tasks, dask, _died)
    elif jobs == 1:
        outcomes = _in_this_process(tasks)
    else:
        outcomes = in_processes(measure, tasks, jobs, _died)
    for number, outcome in outcomes:
        yield tasks[number], outcome


def measure(task: CheckTask) -> CheckOutcome:
    """Run one check on one thread; a crash becomes a traceback."""
    _use_one_thread()
    start = time.perf_counter()
    claim = task.claim
    trace = ""
    try:
        finding = claim.check(Settings(**task.origin.settings), task.origin.seed)
        if not isinstance(finding, Finding):
            raise TypeError(f"the check of {task.name} returned {type(finding).__name__}; expected a Finding")
        if claim.proof is not None:
            finding = replace(finding, proof=checked(claim.proof), refuted=claim.failure is not None)
    except Exception:
        finding = None
        trace = traceback.format_exc()
    return CheckOutcome(time.perf_counter() - start, finding, trace)


def _died(task: CheckTask) -> CheckOutcome:
    """Return the outcome of a task whose worker died at every attempt."""
    return CheckOutcome(0.0, None, f"the process that ran this check died {ATTEMPTS} times")


def _use_one_thread() -> None:
    import torch
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
    torch.set_num_threads(1)


def _in_this_process(tasks: list[CheckTask]) -> Iterator[tuple[int, CheckOutcome]]:
    import torch
    from threadpoolctl import threadpool_limits

    threads = torch.get_num_threads()
    with threadpool_limits(1):
        try:
            for number, task in enumerate(tasks):
                yield number, measure(task)
        finally:
            torch.set_num_threads(threads)
