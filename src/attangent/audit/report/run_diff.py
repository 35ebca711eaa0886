"""Compare two runs: which claims differ in their verdict, or in the verdict on a part."""

from dataclasses import dataclass

from attangent.audit.results import Result, Run


@dataclass(frozen=True)
class ResultPair:
    """The results for one claim in two runs."""

    here: Result
    there: Result

    @property
    def differs(self) -> bool:
        return self.here.verdict is not self.there.verdict or bool(self.parts)

    @property
    def parts(self) -> list[str]:
        """The parts on which both runs have a verdict, and not the same."""
        there = self.there.parts
        return [name for name, verdict in self.here.parts.items() if name in there and there[name] != verdict]


@dataclass(frozen=True)
class RunDiff:
    """The claims that two runs share, the claims that only one of them has, and the runs' names."""

    names: tuple[str, str]
    pairs: tuple[ResultPair, ...]
    only_here: tuple[str, ...]
    only_there: tuple[str, ...]

    @property
    def differing(self) -> list[ResultPair]:
        return [pair for pair in self.pairs if pair.differs]


def compare_runs(here: Run, there: Run) -> RunDiff:
    """Compare the claims of `here` with those of `there`."""
    mine, theirs = ({result.claim: result for result in run.results()} for run in (here, there))
    return RunDiff(
        (run_name(here), run_name(there)),
        tuple(ResultPair(result, theirs[claim]) for claim, result in mine.items() if claim in theirs),
        tuple(claim for claim in mine if claim not in theirs),
        tuple(claim for claim in theirs if claim not in mine),
    )


def run_name(run: Run) -> str:
    """Return the profile and the range of the seeds: `full, seeds 1000 to 1002`."""
    seeds = sorted({record.origin.seed for record in run.records})
    if not seeds:
        return f"{run.profile}, no seeds"
    span = f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"
    return f"{run.profile}, {span}"
