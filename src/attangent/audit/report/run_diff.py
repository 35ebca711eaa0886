"""Two runs beside each other: which claims come out differently, in the verdict or in that of a part."""

from dataclasses import dataclass

from attangent.audit.results import Result, Run


@dataclass(frozen=True)
class Pair:
    """One claim in two runs."""

    here: Result
    there: Result

    @property
    def differs(self) -> bool:
        return self.here.verdict is not self.there.verdict or bool(self.parts)

    @property
    def parts(self) -> list[str]:
        """The parts that both runs judge, and judge differently."""
        there = self.there.parts
        return [name for name, verdict in self.here.parts.items() if name in there and there[name] != verdict]


@dataclass(frozen=True)
class Beside:
    """The claims of two runs: those in both, those that only one of them holds, and the runs' names."""

    names: tuple[str, str]
    pairs: tuple[Pair, ...]
    only_here: tuple[str, ...]
    only_there: tuple[str, ...]

    @property
    def differing(self) -> list[Pair]:
        return [pair for pair in self.pairs if pair.differs]


def beside(here: Run, there: Run) -> Beside:
    """The claims of `here` beside those of `there`."""
    mine, theirs = ({result.claim: result for result in run.results()} for run in (here, there))
    return Beside(
        (run_name(here), run_name(there)),
        tuple(Pair(result, theirs[claim]) for claim, result in mine.items() if claim in theirs),
        tuple(claim for claim in mine if claim not in theirs),
        tuple(claim for claim in theirs if claim not in mine),
    )


def run_name(run: Run) -> str:
    """The profile and the range of the seeds: `full, seeds 1000 to 1002`."""
    seeds = sorted({record.origin.seed for record in run.records})
    if not seeds:
        return f"{run.profile}, no seeds"
    many = f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"
    return f"{run.profile}, {many}"
