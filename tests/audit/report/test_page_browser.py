"""The report in a real browser: what a reader can do with it, on a screen and on a phone."""

import pytest
from selenium.webdriver.common.keys import Keys

from attangent.audit.report.page import write_report
from tests.audit.examples import showcase
from tests.audit.report import browser as browser_module
from tests.audit.report.browser import Browser, start

pytestmark = pytest.mark.browser
ALL = 7


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with start(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return write_report(showcase(), tmp_path_factory.mktemp("run") / "report.html")


@pytest.fixture
def page(chromium: Browser, report) -> Browser:
    """The report, freshly opened on a wide screen, with nothing on record."""
    chromium.resize(1280, 900, phone=False)
    chromium.emulate(prefers_color_scheme="light")
    chromium.open(report)
    return chromium


def listed(page: Browser) -> list[str]:
    return [row.get_attribute("data-claim") for row in page.visible("tr[data-claim]")]


def sections(page: Browser) -> list[str]:
    return [article.get_attribute("id") for article in page.visible("article.claim")]


def status(page: Browser) -> str:
    return page.find("#shown").text


def focused(page: Browser) -> str:
    return page.run("return document.activeElement.textContent.replace(/\\s+/g, ' ').trim()")


def choose(page: Browser, name: str, value: str) -> None:
    page.find(f"select[name={name}] option[value='{value}']").click()


def test_all_claims_are_there_and_closed_at_first(page):
    assert len(listed(page)) == ALL
    assert sorted(sections(page)) == sorted(listed(page))
    assert status(page) == "7 of 7 claims shown"
    assert not page.visible("article .body")


def test_nothing_is_asked_for_and_nothing_complained_about(chromium, report):
    chromium.requests(), chromium.console()
    chromium.open(report)
    chromium.find("#unfold").click()
    chromium.run("dispatchEvent(new Event('beforeprint')); dispatchEvent(new Event('afterprint'))")
    asked = [address for address in chromium.requests() if not address.startswith("data:")]
    assert asked == [report.as_uri()]
    assert chromium.console() == []


def test_the_policy_of_the_page_forbids_requests(page, report):
    page.run("const image = new Image(); image.src = 'http://127.0.0.1:9/x.png'; document.body.append(image)")
    blocked = page.run(
        "return new Promise(done => { addEventListener('securitypolicyviolation', e => done(e.blockedURI));"
        " fetch('http://127.0.0.1:9/y').catch(() => {}); })"
    )
    assert blocked == "http://127.0.0.1:9/y"
    page.console()


def test_hostile_text_runs_nowhere(page):
    page.find("#unfold").click()
    assert page.run("return document.title") == "attangent audit, quick profile"
    assert page.run("return document.images.length") == 0
    assert "<script>document.title='owned'</script>" in page.find("[id='P3/table-9']").text


def test_filters_by_paper_and_verdict(page):
    choose(page, "paper", "P2")
    assert listed(page) == ["P2/lemma-2.2", "P2/lemma-2.3", "P2/theorem-2.1"]
    assert sections(page) == listed(page)
    assert status(page) == "3 of 7 claims shown"
    choose(page, "verdict", "not reproduced")
    assert listed(page) == ["P2/theorem-2.1"]
    choose(page, "paper", "")
    assert listed(page) == ["P2/theorem-2.1", "P3/table-9"]
    assert [heading.text[:2] for heading in page.visible("section.paper h2")] == ["P2", "P3"]
    choose(page, "nature", "experiment")
    assert listed(page) == ["P3/table-9"]
    assert page.visible(".opening") == []
    page.find("button[type=reset]").click()
    assert len(listed(page)) == ALL
    assert len(page.visible(".opening")) == 3


def test_search_looks_for_all_words_anywhere(page):
    page.find("input[name=q]").send_keys("STATEMENT /lemma")
    assert listed(page) == ["P1/lemma-1.2", "P2/lemma-2.2", "P2/lemma-2.3"]
    page.find("input[name=q]").send_keys(" violated")
    assert listed(page) == ["P2/lemma-2.2"]
    page.find("input[name=q]").send_keys(" nowhere")
    assert listed(page) == sections(page) == []
    assert status(page) == "0 of 7 claims shown"


def test_the_number_shown_is_announced(page):
    live = page.find("#shown")
    assert (live.get_attribute("role"), live.get_attribute("aria-live")) == ("status", "polite")


def test_totals_filter_and_release(page):
    page.find(".totals a[data-verdict=open]").click()
    assert listed(page) == ["P3/figure-3"]
    assert page.find(".totals a[data-verdict=open]").get_attribute("aria-current") == "true"
    page.find(".totals a[data-verdict=open]").click()
    assert len(listed(page)) == ALL


def test_the_table_of_papers_filters(page):
    rows = [row.text.split()[0] for row in page.visible(".by-paper tbody tr")]
    assert rows == ["P1", "P2", "P3"]
    page.find(".by-paper a[href*='P2'][href*='violated']").click()
    assert listed(page) == ["P2/lemma-2.2"]
    page.run("scrollTo(0, 0)")
    page.find(".by-paper a[href='#paper-P1']").click()
    assert len(listed(page)) == ALL
    assert in_view(page, "paper-P1")


def test_filters_live_in_the_address(page, report):
    choose(page, "paper", "P1")
    page.find("input[name=q]").send_keys("a&b=c")
    address = page.run("return location.hash")
    page.open(report, address)
    assert page.find("input[name=q]").get_attribute("value") == "a&b=c"
    assert status(page) == "0 of 7 claims shown"
    page.open(report, "#filter:paper=P9&verdict=holds")
    assert page.find("select[name=paper]").get_attribute("value") == ""
    assert listed(page) == ["P1/theorem-1.1", "P2/lemma-2.3"]
    page.open(report, "#%E0%A4%A")
    assert len(listed(page)) == ALL
    assert page.console() == []


def in_view(page: Browser, id: str) -> bool:
    top = page.run("return document.getElementById(arguments[0]).getBoundingClientRect().top", id)
    return -1 <= top < 200


def test_a_deep_link_opens_its_claim(page, report):
    page.open(report, "#P2/theorem-2.1")
    assert page.find("[id='P2/theorem-2.1'] .statement").is_displayed()
    assert in_view(page, "P2/theorem-2.1")
    assert len(page.visible("article .body")) == 1


def test_a_link_opens_its_claim_again_and_despite_a_filter(page):
    link = page.find("tr[data-claim='P1/lemma-1.2'] a")
    link.click()
    assert page.find("[id='P1/lemma-1.2'] .statement").is_displayed()
    page.find("#fold").click()
    assert not page.visible("article .body")
    link.click()
    assert page.find("[id='P1/lemma-1.2'] .statement").is_displayed()
    choose(page, "paper", "P2")
    page.run(
        "return new Promise(done => { addEventListener('hashchange', () => done());"
        " location.hash = '#P1/theorem-1.1'; })"
    )
    assert page.find("[id='P1/theorem-1.1'] .statement").is_displayed()
    assert status(page) == "7 of 7 claims shown"


def test_everything_can_be_done_by_keyboard(page):
    page.press(Keys.TAB)
    assert focused(page) == "Skip to the claims"
    assert page.find(".skip").rect["x"] >= 0
    page.press(Keys.ENTER)
    page.press(Keys.TAB, "lemma-2")
    assert len(listed(page)) == 2
    page.press(Keys.TAB, Keys.TAB, Keys.TAB, Keys.TAB)
    assert focused(page) == "Clear"
    page.press(Keys.TAB, Keys.TAB, Keys.TAB)
    assert focused(page) == "Title of P2/lemma-2.2"
    page.press(Keys.ENTER)
    assert "Title of P2/lemma-2.2" in focused(page)
    assert page.run("return document.activeElement.tagName") == "SUMMARY"
    assert page.find("[id='P2/lemma-2.2'] .statement").is_displayed()
    page.press(Keys.SPACE)
    assert not page.find("[id='P2/lemma-2.2'] .statement").is_displayed()


def test_the_focus_can_be_seen(page):
    page.press(Keys.TAB, Keys.TAB)
    width = page.run("return getComputedStyle(document.activeElement).outlineWidth")
    assert width == "3px"


def test_the_command_can_be_copied(page):
    page.find("tr[data-claim='P1/lemma-1.2'] a").click()
    button = page.find("[id='P1/lemma-1.2'] button.copy")
    button.click()
    said = page.run(
        "const said = document.getElementById('said'); return new Promise(done => {"
        " const look = () => said.textContent ? done(said.textContent) : setTimeout(look, 5); look(); })"
    )
    command = "attangent audit P1/lemma-1.2 --profile quick --force"
    assert said in (f"Copied: {command}", f"Selected: {command}")


def test_a_crash_can_be_opened(page):
    assert not page.visible("details.crash pre")
    page.find("details.crash summary").click()
    assert "RuntimeError: <b>bad</b> luck" in page.find("details.crash pre").text


def test_printing_opens_all_claims_and_closes_them_again(page):
    page.run("dispatchEvent(new Event('beforeprint'))")
    assert len(page.visible("article .body")) == ALL
    page.run("dispatchEvent(new Event('afterprint'))")
    assert not page.visible("article .body")


def test_without_scripts_everything_is_shown(page, report):
    page.allow_scripts(False)
    try:
        page.open(report)
        assert len(page.visible("article .body")) == ALL
        assert not page.visible("form.filters")
    finally:
        page.allow_scripts(True)


OVERFLOWING = """
    const wide = [...document.body.querySelectorAll("*")].filter((element) => {
      const box = element.getBoundingClientRect();
      const hidden = element.closest(".unseen, .caret, .skip, .scroll, pre");
      return !hidden && box.width > 0 && box.right > innerWidth + 0.5;
    });
    return wide.map((element) => element.outerHTML.slice(0, 200));
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 700, 1280])
def test_nothing_overflows(page, report, width, scheme):
    page.resize(width, 844, phone=width < 500)
    page.emulate(prefers_color_scheme=scheme)
    page.open(report)
    page.find("#unfold").click()
    for crash in page.visible("details.crash summary"):
        crash.click()
    assert page.run("return document.scrollingElement.scrollWidth") <= width
    assert page.run(OVERFLOWING) == []
    assert page.run(
        "return [...document.querySelectorAll('.scroll')].every(e => e.scrollWidth <= e.clientWidth)"
    )


LUMINANCE = """
    const [selector] = arguments;
    const channel = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    const light = (colour) => {
      const [r, g, b] = colour.match(/[0-9.]+/g).map(Number).map(channel);
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (element) => {
      while (element) {
        const colour = getComputedStyle(element).backgroundColor;
        if (!/, 0\\)$/.test(colour)) return colour;
        element = element.parentElement;
      }
      return "rgb(255, 255, 255)";
    };
    return [...document.querySelectorAll(selector)].map((element) => {
      const styled = getComputedStyle(element);
      const ink = element instanceof SVGElement ? styled.fill : styled.color;
      const [low, high] = [light(ink), light(behind(element.parentElement && element))].sort((a, b) => a - b);
      return (high + 0.05) / (low + 0.05);
    });
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(page, report, scheme):
    page.emulate(prefers_color_scheme=scheme)
    page.open(report)
    page.find("#unfold").click()
    for selector in (
        ".badge",
        "p",
        "td",
        "th",
        "a",
        ".aside",
        "small",
        ".yes",
        ".no",
        ".unsure",
        ".plot text",
    ):
        ratios = page.run(LUMINANCE, selector)
        assert ratios
        assert min(ratios) >= 4.5, selector


def test_a_missing_browser_skips_or_fails_in_ci(monkeypatch):
    monkeypatch.setattr(browser_module.shutil, "which", lambda name: None)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="install-browser"):
        browser_module._programs()
    monkeypatch.setenv("CI", "1")
    with pytest.raises(pytest.fail.Exception, match="install-browser"):
        browser_module._programs()
