"""What the report shows of claims and papers, ready for its templates."""

import shlex
from dataclasses import dataclass
from itertools import count

from markupsafe import Markup

from attangent.audit.finding import Figure, Verdict
from attangent.audit.plugins import Paper, cited
from attangent.audit.report.figures import Key, draw, legend
from attangent.audit.report.phrases import headline, reason
from attangent.audit.report.proof_graph import Dependence, dependence
from attangent.audit.report.summary import Sentence, summary
from attangent.audit.results import Result, Run, totals
from attangent.audit.storing.record import Record


@dataclass(frozen=True)
class Picture:
    """A figure ready for the page; `svg` is None where none of its points can be drawn."""

    figure: Figure
    svg: Markup | None
    keys: list[Key]

    @property
    def has_bars(self) -> bool:
        return any(series.kind == "bars" for series in self.figure.series)


@dataclass(frozen=True)
class ClaimView:
    """What the page says of one claim. `shown` is the seed whose measurements stand in its tables."""

    result: Result
    shown: Record
    pictures: list[Picture]
    repair: Result | None = None

    @property
    def verdict(self) -> Verdict:
        return self.result.verdict

    @property
    def others(self) -> list[int]:
        """The seeds drawn faintly."""
        return [seed for seed in self.result.seeds if seed != self.shown.origin.seed]

    @property
    def headline(self) -> str:
        return headline(self.result)

    @property
    def reason(self) -> str:
        return reason(self.result)

    @property
    def command(self) -> str:
        origin = self.result.origin
        return shlex.join(["attangent", "audit", origin.claim, "--profile", origin.profile, "--force"])

    def kept_on(self, place: int) -> str:
        """On how many of the seeds the conclusion at this place was kept."""
        lists = [record.finding.conclusions for record in self.result.records]
        kept = [conclusions[place].kept is True for conclusions in lists if place < len(conclusions)]
        return f"{sum(kept)} of {len(kept)}"


def claim_views(run: Run) -> list[ClaimView]:
    """One view for each claim of the run."""
    numbers = count()
    views = []
    results = run.results()
    repairs = {result.origin.repairs: result for result in results if result.origin.repairs}
    for result in results:
        shown = result.deciding
        pictures = [
            _picture(result, shown, place, next(numbers)) for place in range(len(shown.finding.figures))
        ]
        views.append(ClaimView(result, shown, pictures, repairs.get(result.claim)))
    return views


def _picture(result: Result, shown: Record, place: int, number: int) -> Picture:
    figure = shown.finding.figures[place]
    others = (record.finding.figures for record in result.records if record is not shown)
    same = [
        figures[place] for figures in others if place < len(figures) and figures[place].title == figure.title
    ]
    svg = draw([figure, *same], f"figure{number}")
    return Picture(figure, None if svg is None else Markup(svg), legend(figure))


@dataclass(frozen=True)
class PaperView:
    """What the page says of one paper: how it is cited, what is true in it, and its claims."""

    name: str
    cited: Paper | None
    claims: list[ClaimView]
    ours: list[ClaimView]
    sentences: list[Sentence]
    picture: Dependence | None

    @property
    def subject(self) -> str:
        return self.cited.subject if self.cited else ""

    @property
    def totals(self) -> dict[str, int]:
        return totals(claim.result for claim in self.claims)


def paper_views(claims: list[ClaimView]) -> list[PaperView]:
    """One view for each paper, in the order of their claims."""
    grouped: dict[str, list[ClaimView]] = {}
    for claim in claims:
        grouped.setdefault(claim.result.origin.paper, []).append(claim)
    return [_paper_view(name, members) for name, members in grouped.items()]


def _paper_view(name: str, members: list[ClaimView]) -> PaperView:
    ours = [claim for claim in members if claim.result.is_ours]
    own = [claim for claim in members if not claim.result.is_ours]
    results = [claim.result for claim in own]
    repairs = {claim.result.origin.repairs: claim.result for claim in ours}
    sentences = summary(results, repairs) if results else []
    return PaperView(name, cited(name), own, ours, sentences, dependence(results))
