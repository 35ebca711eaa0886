"""Where claims come from: the packages below `audit.papers`, and those of others by their entry points."""

import pkgutil
import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

GROUP = "attangent.claims"
_OWN = re.compile(r"(p\d+)_\w+")
_NAME = re.compile(r"[A-Z][A-Za-z0-9]*")


@dataclass(frozen=True)
class Paper:
    """How a paper is cited. A package of claims holds one as PAPER."""

    title: str
    authors: str = ""
    year: str = ""
    link: str = ""
    subject: str = ""
    """What it is about, in a few words."""
    note: str = ""
    """Which version the claims speak of, where that matters."""


@dataclass(frozen=True)
class Source:
    """The package that holds the claims of one paper; `name` stands before the / in their ids."""

    name: str
    package: str

    def load(self) -> None:
        """Import the package and all modules below it, so that their claims are registered."""
        package = import_module(self.package)
        for module in pkgutil.walk_packages(getattr(package, "__path__", []), self.package + "."):
            import_module(module.name)

    def paper(self) -> Paper | None:
        """How its paper is cited, where the package says so."""
        found = getattr(import_module(self.package), "PAPER", None)
        return found if isinstance(found, Paper) else None


@cache
def sources() -> dict[str, Source]:
    """Every source by name, ours first."""
    return {source.name: source for source in (*_foreign(), *_own())}


def refused() -> dict[str, str]:
    """Entry points that cannot be sources, and why."""
    own = {source.name for source in _own()}
    found = {}
    for point in entry_points(group=GROUP):
        if not _NAME.fullmatch(point.name):
            found[point.name] = "a paper's name has letters and digits only and begins with a capital"
        elif point.name in own:
            found[point.name] = "attangent has a paper of this name"
    return found


def cited(name: str) -> Paper | None:
    """How the paper of this name is cited; None where nobody says so or its package cannot be imported."""
    try:
        return sources()[name].paper()
    except Exception:  # a foreign package may fail in any way
        return None


def _own() -> list[Source]:
    from attangent import papers

    names = sorted(module.name for module in pkgutil.iter_modules(papers.__path__) if module.ispkg)
    matches = [match for name in names if (match := _OWN.fullmatch(name))]
    return [Source(match[1].upper(), f"{papers.__name__}.{match[0]}.claims") for match in matches]


def _foreign() -> list[Source]:
    left_out = refused()
    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    return [Source(point.name, point.module) for point in points if point.name not in left_out]
