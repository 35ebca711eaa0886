"""Runs claims: picks what is missing in the run folder, measures it, writes each finding as it comes."""

import platform
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from attangent._errors import AttangentError
from attangent._files import only_writer, real_folder
from attangent.audit.claims import PROFILES, Claim
from attangent.audit.data import data_digests
from attangent.audit.registry import select
from attangent.audit.results import Run, load
from attangent.audit.running.code import code_version
from attangent.audit.running.extras import outdated
from attangent.audit.running.progress import progress_bar
from attangent.audit.running.workers import Outcome, Task, execute
from attangent.audit.storing.record import Origin, Record
from attangent.audit.storing.store import Damaged, Store


@dataclass(frozen=True)
class Job:
    """One finding wanted: the claim, what identifies the finding, and the task that measures it."""

    claim: Claim
    origin: Origin
    task: Task


def run(
    ids: Iterable[str] = (),
    *,
    paper: str | None = None,
    profile: str = "quick",
    seeds: int | None = None,
    jobs: int = 1,
    dask: str | None = None,
    out: str | Path | None = None,
    force: bool = False,
    quiet: bool = True,
) -> Run:
    """Audit claims and give their findings; those already in the folder `out` are not computed again.

    `ids` may hold patterns (`P2/lemma-*`). `seeds` is the number of seeds a claim (by default its own).
    `jobs` workers run at once, or those of the Dask cluster at the address `dask`. `force` computes
    everything anew. The folder `out` is audit-PROFILE where none is named.
    """
    _check(profile, seeds, jobs)
    wanted = [job for claim in select(ids, paper) for job in _jobs(claim, profile, seeds)]
    folder = real_folder(Path(out if out is not None else f"audit-{profile}"))
    store = Store(folder)
    with only_writer(folder, "audit"):
        store.prepare(profile)
        problems = _tidy(store, wanted)
        missing = wanted if force else [job for job in wanted if not _is_there(store, job)]
        _measure(store, missing, jobs, dask, quiet)
    found = load(folder)
    names = {(job.origin.claim, job.origin.seed) for job in wanted}
    return replace(
        found,
        records=tuple(r for r in found.records if (r.origin.claim, r.origin.seed) in names),
        failures=tuple(f for f in found.failures if (f["claim"], f["seed"]) in names),
        problems={**problems, **found.problems},
    )


def _check(profile: str, seeds: int | None, jobs: int) -> None:
    if profile not in PROFILES:
        raise AttangentError(f"unknown profile {profile!r}, expected one of {', '.join(PROFILES)}")
    if seeds is not None and seeds < 1:
        raise AttangentError(f"seeds is {seeds}, expected at least 1")
    if jobs < 1:
        raise AttangentError(f"jobs is {jobs}, expected at least 1")


def _jobs(claim: Claim, profile: str, seeds: int | None) -> Iterator[Job]:
    settings = claim.settings(profile)
    if claim.data:
        settings |= {"data": data_digests(claim.data)}
    code = code_version(claim.check.__module__)
    for seed in range(seeds if seeds is not None else claim.seeds):
        origin = Origin(
            claim.id, claim.title, claim.place, claim.statement, profile, dict(settings), seed, code
        )
        yield Job(claim, origin, Task(f"{claim.id} seed {seed}", claim.check, settings, seed))


def _tidy(store: Store, wanted: list[Job]) -> dict[Path, str]:
    """Set aside what cannot be trusted, and findings of these claims by other code that are not asked for."""
    records, problems = store.read_all()
    current = {job.origin.claim: job.origin.code for job in wanted}
    asked = {job.origin.stem for job in wanted}
    for record in records:
        code = current.get(record.origin.claim, record.origin.code)
        if record.origin.stem not in asked and record.origin.code != code:
            problems[store.findings / f"{record.origin.stem}.json"] = "it was made by other code"
    return {store.set_aside(path): f"{path.name}: {reason}" for path, reason in problems.items()}


def _is_there(store: Store, job: Job) -> bool:
    try:
        record = store.read(job.origin.stem)
        return record.origin.key == job.origin.key and not outdated(record.finding)
    except (Damaged, FileNotFoundError):
        return False


def _measure(store: Store, missing: list[Job], jobs: int, dask: str | None, quiet: bool) -> None:
    longest_first = sorted(missing, key=lambda job: -job.claim.seconds)
    by_name = {job.task.name: job for job in longest_first}
    versions = _versions()
    with progress_bar({name: job.claim.seconds for name, job in by_name.items()}, quiet) as advance:
        for outcome in execute([job.task for job in longest_first], jobs, dask):
            _keep(store, by_name[outcome.name].origin, outcome, versions)
            advance(outcome.name)


def _keep(store: Store, origin: Origin, outcome: Outcome, versions: dict[str, str]) -> None:
    if outcome.finding is None:
        store.write_failure(origin, outcome.traceback)
    else:
        store.write(Record(origin, outcome.finding, outcome.seconds, versions))


def _versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("attangent", "torch", "numpy", "scipy")}
    return {"python": platform.python_version(), **packages}
