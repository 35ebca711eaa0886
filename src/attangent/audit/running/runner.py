"""Runs claims: picks what is missing in the run folder, measures it, writes each finding as it comes."""

import platform
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from attangent._core.errors import AttangentError
from attangent._core.files import only_writer, real_folder
from attangent.audit.claims import FIRST_SEEDS, PROFILES, Claim
from attangent.audit.data import data_digests
from attangent.audit.registry import select
from attangent.audit.results import Run
from attangent.audit.running.code import code_version
from attangent.audit.running.extras import outdated
from attangent.audit.running.progress import progress_bar
from attangent.audit.running.workers import Outcome, Task, execute
from attangent.audit.storing.record import Origin, Record
from attangent.audit.storing.store import Store

MOST_SEEDS = 100_000


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
    first_seed: int | None = None,
    jobs: int = 1,
    dask: str | None = None,
    out: str | Path | None = None,
    force: bool = False,
    quiet: bool = True,
) -> Run:
    """Audit claims and give their findings; those already in the folder `out` are not computed again.

    `ids` may hold patterns (`P2/lemma-*`). `seeds` is how many seeds each claim runs with, by default its own
    number, and `first_seed` where they begin: at 0 in the quick profile and at 1000 in the full one, unless
    said otherwise. `jobs` workers run at once, or those of the Dask cluster at the address `dask`. `force`
    computes everything anew. The folder `out` is audit-PROFILE where none is named.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = run(["P2/definition-3.6"], seeds=1, out=folder)
    >>> [(result.claim, result.verdict.value) for result in found.results()]
    [('P2/definition-3.6', 'holds')]
    """
    return run_in_folder(
        ids,
        paper=paper,
        profile=profile,
        seeds=seeds,
        first_seed=first_seed,
        jobs=jobs,
        dask=dask,
        out=out,
        force=force,
        quiet=quiet,
    )[0]


def run_in_folder(
    ids: Iterable[str],
    *,
    paper: str | None,
    profile: str,
    seeds: int | None,
    first_seed: int | None,
    jobs: int,
    dask: str | None,
    out: str | Path | None,
    force: bool,
    quiet: bool,
) -> tuple[Run, Run]:
    """As `run`, and beside what was asked for all that the folder holds. Each finding is read once."""
    _check(profile, seeds, first_seed, jobs)
    wanted = [
        job
        for claim in select(ids, paper)
        for job in _jobs(claim, profile, _seeds(claim, profile, seeds, first_seed))
    ]
    folder = real_folder(Path(out if out is not None else f"audit-{profile}"))
    store = Store(folder)
    with only_writer(folder, "audit"):
        store.prepare(profile)
        there, problems = _tidy(store, wanted)
        missing = wanted if force else [job for job in wanted if not _is_current(there, job)]
        there |= _measure(store, missing, jobs, dask, quiet)
        failures = tuple(store.read_failures())
    whole = Run(folder, profile, tuple(there[stem] for stem in sorted(there)), failures, {})
    return _part_of(whole, wanted, problems), whole


def _part_of(whole: Run, wanted: list[Job], problems: dict[Path, str]) -> Run:
    names = {(job.origin.claim, job.origin.seed) for job in wanted}
    return replace(
        whole,
        records=tuple(r for r in whole.records if (r.origin.claim, r.origin.seed) in names),
        failures=tuple(f for f in whole.failures if (f["claim"], f["seed"]) in names),
        problems=problems,
    )


def _check(profile: str, seeds: int | None, first_seed: int | None, jobs: int) -> None:
    if profile not in PROFILES:
        raise AttangentError(f"unknown profile {profile!r}, expected one of {', '.join(PROFILES)}")
    if seeds is not None and seeds < 1:
        raise AttangentError(f"seeds is {seeds}, expected at least 1")
    if seeds is not None and seeds > MOST_SEEDS:
        raise AttangentError(f"seeds is {seeds:,}, expected at most {MOST_SEEDS:,} of each claim")
    if first_seed is not None and first_seed < 0:
        raise AttangentError(f"first_seed is {first_seed}, expected at least 0")
    if jobs < 1:
        raise AttangentError(f"jobs is {jobs}, expected at least 1")


def _seeds(claim: Claim, profile: str, count: int | None, first: int | None) -> range:
    start = FIRST_SEEDS[profile] if first is None else first
    return range(start, start + (claim.seeds_of(profile) if count is None else count))


def _jobs(claim: Claim, profile: str, seeds: Iterable[int]) -> Iterator[Job]:
    settings = claim.settings(profile)
    if claim.data:
        settings |= {"data": data_digests(claim.data)}
    code = code_version(claim.module)
    for seed in seeds:
        origin = Origin(
            claim=claim.id,
            title=claim.title,
            place=claim.place,
            statement=claim.statement,
            profile=profile,
            settings=dict(settings),
            seed=seed,
            code=code,
            kind=claim.kind,
            quote=claim.quote,
            rests_on=claim.rests_on,
            repairs=claim.repairs,
            derivation=claim.derivation,
        )
        yield Job(claim, origin, Task(f"{claim.id} seed {seed}", claim.check, settings, seed))


def _tidy(store: Store, wanted: list[Job]) -> tuple[dict[str, Record], dict[Path, str]]:
    """The findings of the folder by name, and what was set aside: files that cannot be trusted, and findings
    of these claims by other code that are not asked for."""
    records, problems = store.read_all()
    current = {job.origin.claim: job.origin.code for job in wanted}
    asked = {job.origin.stem for job in wanted}
    kept = {}
    for record in records:
        code = current.get(record.origin.claim, record.origin.code)
        if record.origin.stem not in asked and record.origin.code != code:
            problems[store.findings / f"{record.origin.stem}.json"] = "it was made by other code"
        else:
            kept[record.origin.stem] = record
    return kept, {store.set_aside(path): f"{path.name}: {reason}" for path, reason in problems.items()}


def _is_current(there: dict[str, Record], job: Job) -> bool:
    record = there.get(job.origin.stem)
    return record is not None and record.origin.key == job.origin.key and not outdated(record.finding)


def _measure(store: Store, missing: list[Job], jobs: int, dask: str | None, quiet: bool) -> dict[str, Record]:
    """Run the missing jobs and write what they find; gives the new findings by name."""
    longest_first = sorted(missing, key=lambda job: -job.claim.seconds)
    by_name = {job.task.name: job for job in longest_first}
    versions, found = _versions(), {}
    with progress_bar({name: job.claim.seconds for name, job in by_name.items()}, quiet) as advance:
        for outcome in execute([job.task for job in longest_first], jobs, dask):
            origin = by_name[outcome.name].origin
            record = _keep(store, origin, outcome, versions)
            if record is not None:
                found[origin.stem] = record
            advance(outcome.name)
    return found


def _keep(store: Store, origin: Origin, outcome: Outcome, versions: dict[str, str]) -> Record | None:
    if outcome.finding is None:
        store.write_failure(origin, outcome.traceback)
        return None
    return store.write(Record(origin, outcome.finding, outcome.seconds, versions))


def _versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("attangent", "torch", "numpy", "scipy")}
    return {"python": platform.python_version(), **packages}
