"""Packages of claims: our papers, found by name below `attangent.papers`, and plug-ins, by entry point.

`write_new_claims` writes a new package: files that run, to be turned into the claims of a paper.
"""

import pkgutil
import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from string import Template

from attangent._core.errors import AttangentError
from attangent._core.files import real_folder, write_whole

GROUP = "attangent.claims"
_PAPERS = "attangent.papers"
_PAPER_PACKAGE = re.compile(r"(p\d+)_\w+")
_NAME = re.compile(r"[A-Z][A-Za-z0-9]*")


@dataclass(frozen=True)
class Paper:
    """The citation of a paper. A package of claims holds one as PAPER.

    Args:
        title: The title.
        authors: The authors, separated by commas.
        year: The year.
        link: The address of the paper.
        subject: The subject in a few words.
        note: The version that the claims refer to, if that matters.
        status: What to say beside every count, such as "withdrawn in December 2024".
        erratum: An author's reply, an erratum, or the withdrawal; for every claim that names none.

    Example:
        >>> Paper("Random features", authors="A. Rahimi, B. Recht", year="2007").year
        '2007'
    """

    title: str
    authors: str = ""
    year: str = ""
    link: str = ""
    subject: str = ""
    note: str = ""
    status: str = ""
    erratum: str = ""


@dataclass(frozen=True)
class ClaimPackage:
    """The package with the claims of one paper; claim ids start with `name`/."""

    name: str
    package: str

    def load(self) -> None:
        """Import the package and all modules below it, which registers their claims."""
        package = import_module(self.package)
        for module in pkgutil.walk_packages(getattr(package, "__path__", []), self.package + "."):
            import_module(module.name)

    def paper(self) -> Paper | None:
        """Return the citation of its paper, if the package has one."""
        paper = getattr(import_module(self.package), "PAPER", None)
        return paper if isinstance(paper, Paper) else None


@cache
def claim_packages() -> dict[str, ClaimPackage]:
    """Return every package of claims by name; ours win over plug-ins of the same name."""
    return {package.name: package for package in (*_plugins(), *_ours())}


def refused() -> dict[str, str]:
    """Return the entry points that cannot be used, and why."""
    ours = {package.name for package in _ours()}
    reasons = {}
    for point in entry_points(group=GROUP):
        if not _NAME.fullmatch(point.name):
            reasons[point.name] = "the name must start with a capital and hold only letters and digits"
        elif point.name in ours:
            reasons[point.name] = "attangent already has a paper of this name"
    return reasons


def cited(name: str) -> Paper | None:
    """Return the citation of this paper, or None if there is none or its package cannot be imported."""
    try:
        return claim_packages()[name].paper()
    except Exception:  # a plug-in may fail in any way
        return None


def _ours() -> list[ClaimPackage]:
    spec = find_spec(_PAPERS)
    folders = spec.submodule_search_locations if spec else None
    names = sorted(module.name for module in pkgutil.iter_modules(folders or []) if module.ispkg)
    matches = [match for name in names if (match := _PAPER_PACKAGE.fullmatch(name))]
    return [ClaimPackage(match[1].upper(), f"{_PAPERS}.{match[0]}.claims") for match in matches]


def _plugins() -> list[ClaimPackage]:
    unusable = refused()
    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    return [ClaimPackage(point.name, point.module) for point in points if point.name not in unusable]


_TEMPLATE = Path(__file__).with_name("new_claims_template")


def write_new_claims(name: str, out: str | Path | None = None) -> Path:
    """Write a package of claims for the paper `name` to `out`, by default ./PACKAGE, and return the folder.

    Raises:
        AttangentError: If the name is taken or cannot start a claim id, or the folder is not empty.
    """
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name):
        raise AttangentError(
            f"a paper cannot be called {name!r}: expected a capital followed by letters and digits (MyPaper)"
        )
    if name in claim_packages():
        raise AttangentError(f"a paper called {name} already has claims; choose another name")
    package = f"{re.sub(r'(?<=[a-z0-9])(?=[A-Z])', '_', name).lower()}_claims"
    folder = real_folder(Path(out if out is not None else package))
    if any(folder.iterdir()):
        raise AttangentError(f"{folder} is not empty; pass another folder (--out)")
    for template in sorted(_TEMPLATE.rglob("*.txt")):
        relative = template.relative_to(_TEMPLATE).with_suffix("").as_posix()
        path = folder / relative.replace("package/", f"{package}/")
        real_folder(path.parent)
        text = Template(template.read_text(encoding="utf-8"))
        write_whole(path, text.substitute(name=name, package=package, group=GROUP))
    return folder
