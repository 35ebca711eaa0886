"""Write a new package of claims: files that run, to be turned into the claims of a paper."""

import re
from pathlib import Path
from string import Template

from attangent._core.errors import AttangentError
from attangent._core.files import real_folder, write_whole
from attangent.audit.plugins import GROUP, claim_packages

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
