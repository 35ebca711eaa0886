"""The site's navigation, links, anchors and reference are whole, checked without building it."""

import importlib
import inspect
import re
from functools import cache
from pathlib import Path

import pytest
import yaml
from docs.tools.check_site import problems
from docs.tools.commands import on_page_content

import attangent

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
BELOW = (
    "attangent.attention.features",
    *(f"attangent.papers.{paper}" for paper in ("p1_prefix", "p2_softmax", "p3_two_stage", "p4_in_context")),
    "attangent.papers.p5_forecasting",
)


class Settings(yaml.SafeLoader):
    """mkdocs.yml may hold tags of its own, which do not matter here."""


Settings.add_multi_constructor("", lambda loader, suffix, node: None)
SITE = yaml.load((ROOT / "mkdocs.yml").read_text(), Settings)


def files_of(nav: object) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [file for part in parts for file in files_of(part)]


@cache
def text_of(page: Path) -> str:
    """A page with the files it includes, without code."""
    text = re.sub(
        r'^--8<-- "([^"]+)"$', lambda found: (ROOT / found[1]).read_text(), page.read_text(), flags=re.M
    )
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(?<!`)`[^`\n]+`(?!`)", lambda found: found[0].replace("[", "").replace("]", ""), text)


@cache
def anchors_of(page: Path) -> set[str]:
    """The anchors of the headings, as Python-Markdown makes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.+?)\s*$", text_of(page), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        slug = re.sub(
            r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain.encode("ascii", "ignore").decode()).strip().lower()
        )
        count = sum(
            name == slug or re.fullmatch(rf"{re.escape(slug)}_\d+", name) is not None for name in found
        )
        found.add(f"{slug}_{count}" if count else slug)
    return found | {f"{name}" for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)}


def test_every_page_is_in_the_navigation_once():
    shown = files_of(SITE["nav"])
    assert len(shown) == len(set(shown))
    hidden = set(SITE.get("not_in_nav", "").split())
    assert set(shown) | hidden >= {str(page.relative_to(DOCS)) for page in PAGES}
    assert [file for file in shown if not (DOCS / file).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_links_lead_to_pages_of_the_site_and_to_headings(page):
    wrong = []
    for target, anchor in re.findall(r"\]\(([^)\s:#]*)(?:#([^)\s]*))?\)", text_of(page)):
        place = (page.parent / target).resolve() if target else page
        if DOCS not in (place, *place.parents) or not place.exists():
            wrong.append(f"{target} is no file of the site")
        elif anchor and place.suffix == ".md" and anchor not in anchors_of(place):
            wrong.append(f"{target}#{anchor}: no such heading")
    assert not wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_formulas_are_no_tags(page):
    """A browser takes <a, b> for a tag and shows nothing: write &lt;a, b>."""
    text = re.sub(r"^(    |\t).*$", "", text_of(page), flags=re.MULTILINE)
    found = set(re.findall(r"(?<![\\\w])<([A-Za-z]\w*)", re.sub(r"`[^`]+`", "", text)))
    assert found <= {"div", "figure", "figcaption", "table", "thead", "tbody", "tr", "th", "td"}


def public_names() -> set[str]:
    found = {f"attangent.{name}" for name in attangent.__all__}
    for room in (*(f"attangent.{room}" for room in attangent._ROOMS), *BELOW):
        module = importlib.import_module(room)
        found |= {f"{room}.{name}" for name in getattr(module, "__all__", ())}
    return found - {"attangent.attention.features.BY_NAME"}


def test_every_public_name_is_on_a_reference_page():
    text = "\n".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    shown = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    assert len(shown) == len(set(shown))
    assert public_names() - set(shown) == set()


def test_names_on_the_reference_pages_exist():
    text = "\n".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    for name in re.findall(r"^::: (\S+)$", text, re.MULTILINE):
        module, _, last = name.rpartition(".")
        assert hasattr(importlib.import_module(module), last), name


def test_public_names_say_what_they_are():
    """Every name has a docstring; those of the top level have an example too."""
    bare = []
    for name in sorted(public_names()):
        module, _, last = name.rpartition(".")
        thing = getattr(importlib.import_module(module), last)
        if callable(thing) and not (thing.__doc__ or "").strip():
            bare.append(name)
    aliases = ["attangent.forecast.Gaps", "attangent.forecast.ModelName", "attangent.forecast.Reconcile"]
    assert bare == aliases  # they cannot have one
    named = [name for name in attangent.__all__ if name != "__version__"]
    texts = {name: inspect.getdoc(getattr(attangent, name)) or "" for name in named}
    assert [name for name, text in texts.items() if not re.search(r"^(>>>|    \S)", text, re.MULTILINE)] == []


PAGE = "<html><head>{head}</head><body><h1 id='top'>A</h1><a href='{link}'>b</a></body></html>"


@pytest.mark.parametrize(
    ("head", "link", "wrong"),
    [
        ("", "#top", []),
        ("", "https://example.org", []),
        ("", "other.html", ["index.html: other.html leads nowhere"]),
        ("", "#bottom", ["index.html: #bottom: no such anchor"]),
        (
            "<script src='https://example.org/a.js'></script>",
            "#top",
            ["index.html fetches https://example.org/a.js"],
        ),
        (
            "<link rel='stylesheet' href='//fonts.example/b.css'>",
            "",
            ["index.html fetches //fonts.example/b.css"],
        ),
    ],
)
def test_a_built_site_is_searched_for_foreign_hosts_and_dead_links(tmp_path, head, link, wrong):
    (tmp_path / "index.html").write_text(PAGE.format(head=head, link=link))
    (tmp_path / "search").mkdir()
    (tmp_path / "search" / "search_index.json").write_text('{"docs": [{}]}')
    assert problems(tmp_path) == [*wrong, "the search does not work from the disk"]
    (tmp_path / "search" / "search_index.js").write_text("var __index = {}")
    assert problems(tmp_path) == wrong
    (tmp_path / "style.css").write_text("body { background: url(https://example.org/x.png) }")
    assert problems(tmp_path) == [*wrong, "style.css fetches a style or font from elsewhere"]


@pytest.mark.parametrize(
    ("code", "language"),
    [
        ("attangent demo tune", "sh"),
        ("A=b make test", "sh"),
        ("attangent: no such file", "text"),
        ("7 of 7", "text"),
    ],
)
def test_blocks_of_commands_wrap(code, language):
    html = '<div class="language-{} highlight"><pre><span></span><code>{}\n</code></pre></div>'
    assert on_page_content(html.format("text", code)) == html.format(language, code)
