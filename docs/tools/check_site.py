"""Checks a built site: `python docs/tools/check_site.py site`. What is wrong is printed, and the exit code
is 1.

Nothing may be fetched from elsewhere (scripts, styles, fonts, pictures; links a reader may follow are fine),
every link inside the site must lead to a page and an anchor that exist, and the search must have an index.
"""

import json
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "link": "href"}
NOT_FETCHED = {"canonical", "next", "prev", "alternate"}


class Page(HTMLParser):
    """The anchors of a page, its links, and what a browser would fetch for it."""

    def __init__(self, path: Path):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        place = given.get(FETCHED.get(tag, ""))
        if place is not None and given.get("rel") not in NOT_FETCHED:
            self.fetched.append(place)


def problems(site: Path) -> list[str]:
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}
    found = [] if pages else [f"there are no pages in {site}"]
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        found += [f"{name} fetches {place}" for place in page.fetched if _is_foreign(place)]
        found += [f"{name}: {reason}" for link in page.links if (reason := _broken(path, link, pages))]
    for path in site.rglob("*.css"):
        if "url(http" in path.read_text(encoding="utf-8") or "@import" in path.read_text(encoding="utf-8"):
            found.append(f"{path.relative_to(site)} fetches a style or font from elsewhere")
    return found + _search_problems(site)


def _is_foreign(place: str) -> bool:
    return bool(urlsplit(place).netloc)


def _broken(path: Path, link: str, pages: dict[Path, Page]) -> str:
    """Return why a link is broken; an empty text if it works or leaves the site."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc or path.name == "404.html":
        return ""
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        return f"{link} leads nowhere"
    anchor = unquote(parts.fragment)
    known = pages.get(target)
    if anchor and known is not None and anchor not in known.anchors:
        return f"{link}: no such anchor"
    return ""


def _search_problems(site: Path) -> list[str]:
    index = site / "search" / "search_index.json"
    if not index.exists() or not json.loads(index.read_text(encoding="utf-8"))["docs"]:
        return ["the search has no index"]
    return [] if index.with_suffix(".js").exists() else ["the search does not work from the disk"]


def main(site: str) -> int:
    found = problems(Path(site))
    print("\n".join(found) or f"{site}: links lead somewhere, nothing is fetched from elsewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
