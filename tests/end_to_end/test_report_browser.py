"""The report in real headless Chromium: it finds its parts, asks for nothing, fits a phone, runs nothing hostile, prints.

Screenshots for a person's eyes go to the folder BURNIN_SCREENSHOTS, else to the test's own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from burnin.report import html
from burnin.report.series import Series, parse_samples
from unit.report import documents

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DESKTOP, PHONE = (1360, 900), (390, 844)


@dataclass
class Opened:
    """A page, and what it did that it should not."""

    page: Page
    troubles: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        reason = "chromium is not installed (Debian: apt-get install --no-install-recommends chromium)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def series() -> dict[str, Series]:
    return {gpu: one for text in documents.demo_samples().values() for gpu, one in parse_samples(text).items()}


@pytest.fixture(scope="module")
def demo(series: dict[str, Series], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "report.html"
    path.write_text(html.render(documents.demo(), run=documents.run_record(), series=series), encoding="utf-8")
    return path


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = Path(os.environ.get("BURNIN_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def opened(browser: Browser, path: Path, size: tuple[int, int] = DESKTOP, *, scheme: str = "light", scripts: bool = True) -> Opened:
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme=scheme,  # type: ignore[arg-type]
        java_script_enabled=scripts,
    )
    found = Opened(context.new_page())
    found.page.on("console", lambda message: found.troubles.append(message.text))
    found.page.on("pageerror", lambda error: found.troubles.append(str(error)))
    found.page.on("request", lambda request: found.requests.append(request.url))
    context.route("**/*", lambda route: route.continue_() if route.request.url == path.as_uri() else route.abort())
    found.page.goto(path.as_uri())
    return found


def overflow_px(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def test_the_flagged_gpus_are_found_by_their_serials(browser: Browser, demo: Path, pictures: Path) -> None:
    report = opened(browser, demo)

    for node, slot in ((1, 3), (2, 6), (3, 1), (1, 7)):
        card = report.page.locator("article", has_text=documents.serial(node, slot))
        assert card.count() == 1
        assert card.is_visible()
        assert card.locator("svg[role=img]").count() == 3
    dead = report.page.locator("article", has_text="Node demo-04")
    assert all(documents.serial(4, slot) in dead.inner_text() for slot in range(8))
    report.page.screenshot(path=pictures / "desktop-light.png", full_page=True)
    assert report.troubles == []
    assert report.requests == [demo.as_uri()]


def test_a_cell_of_the_map_leads_to_the_card(browser: Browser, demo: Path) -> None:
    report = opened(browser, demo)

    report.page.locator("td[data-g='14'] a").first.click()

    target = report.page.locator("article:target")
    assert documents.serial(2, 6) in target.inner_text()


def test_dark_is_dark(browser: Browser, demo: Path, pictures: Path) -> None:
    report = opened(browser, demo, scheme="dark")
    background = report.page.evaluate("getComputedStyle(document.body).backgroundColor")

    report.page.screenshot(path=pictures / "desktop-dark.png", full_page=True)

    assert background == "rgb(16, 19, 23)"
    assert report.troubles == []


@pytest.mark.parametrize("size", [PHONE, (320, 640), (768, 1024), DESKTOP], ids=["phone", "small phone", "tablet", "desktop"])
@pytest.mark.parametrize("name", ["demo", "hostile"])
def test_the_page_never_scrolls_sideways(
    browser: Browser, demo: Path, tmp_path: Path, pictures: Path, name: str, size: tuple[int, int]
) -> None:
    path = demo
    if name == "hostile":
        path = tmp_path / "hostile.html"
        path.write_text(html.render(documents.hostile()), encoding="utf-8")
    report = opened(browser, path, size)

    if size == PHONE:
        report.page.screenshot(path=pictures / f"phone-{name}.png", full_page=True)

    assert overflow_px(report.page) == 0


def test_a_phone_stacks_the_findings(browser: Browser, demo: Path) -> None:
    page = opened(browser, demo, (375, 812)).page
    hidden = """() => [...document.querySelectorAll('.card .scroll')].filter(box => box.scrollWidth > box.clientWidth + 1).length"""
    cells = page.locator(".findings td:visible")

    assert page.evaluate(hidden) == 0
    assert [text for text in cells.all_inner_texts() if text.strip() in ("", "\N{EN DASH}")] == []
    assert cells.nth(1).evaluate("cell => getComputedStyle(cell, '::before').content") == '"Test"'
    assert page.evaluate("Math.max(...[...document.querySelectorAll('.findings tr')].map(row => row.offsetHeight))") < 260


def test_a_simulated_rack_is_told_on_screen_and_in_print(browser: Browser, tmp_path: Path, pictures: Path) -> None:
    path = tmp_path / "simulated.html"
    path.write_text(html.render({**documents.demo(), "simulated": True, "notes": ["Two nodes gave the same evidence."]}), encoding="utf-8")
    page = opened(browser, path).page
    banner = page.locator(".simulated")
    page.screenshot(path=pictures / "simulated.png")

    assert banner.bounding_box()["y"] < page.locator("h1").bounding_box()["y"]  # type: ignore[index]
    page.emulate_media(media="print")
    assert banner.is_visible()
    assert banner.inner_text() == "Simulated rack: no part here is real"


def test_no_text_of_a_chart_lies_on_another(browser: Browser, demo: Path) -> None:
    report = opened(browser, demo, PHONE)
    script = """() => [...document.querySelectorAll('figure.chart > svg')].flatMap(svg => {
      const boxes = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
      return boxes.flatMap(([one, a], index) => boxes.slice(index + 1)
        .filter(([, b]) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
        .map(([other]) => one + ' / ' + other));
    })"""

    assert report.page.evaluate(script) == []


def test_hostile_names_are_shown_and_not_run(browser: Browser, tmp_path: Path, pictures: Path) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(html.render(documents.hostile()), encoding="utf-8")
    report = opened(browser, path)

    report.page.wait_for_timeout(200)
    report.page.screenshot(path=pictures / "hostile.png", full_page=True)

    assert report.page.evaluate("window.pwned") is None
    assert report.page.locator("h4", has_text="<script>window.pwned=1</script>").count() >= 1
    assert report.page.locator("img").count() == 0
    assert report.troubles == []
    assert report.requests == [path.as_uri()]


def test_a_script_that_got_into_the_page_would_be_refused(browser: Browser, demo: Path, tmp_path: Path) -> None:
    path = tmp_path / "spoilt.html"
    path.write_text(demo.read_text(encoding="utf-8").replace("</main>", "<script>window.pwned=1</script></main>"), encoding="utf-8")
    report = opened(browser, path)

    assert report.page.evaluate("window.pwned") is None
    assert "Content Security Policy" in " ".join(report.troubles)


def test_search_and_verdict_narrow_the_table(browser: Browser, demo: Path) -> None:
    from playwright.sync_api import expect

    report = opened(browser, demo)
    rows = report.page.locator(".parts tbody tr:visible")

    report.page.locator(".find input").fill(documents.serial(2, 6))
    expect(report.page.locator(".find output")).to_have_text("1 of 32")
    assert rows.count() == 1
    report.page.locator(".find input").fill("")
    report.page.locator(".find select").select_option("INCONCLUSIVE")
    expect(report.page.locator(".find output")).to_have_text("8 of 32")
    assert rows.count() == 8
    assert report.troubles == []


def test_a_cell_says_what_it_stands_for(browser: Browser, demo: Path, pictures: Path) -> None:
    report = opened(browser, demo)

    report.page.locator("td[data-g='3']").first.hover()

    tip = report.page.locator("#tip")
    assert tip.is_visible()
    assert documents.serial(1, 3) in tip.inner_text()
    assert "672.1" in tip.inner_text()
    report.page.screenshot(path=pictures / "tooltip.png")


def test_without_scripts_all_parts_are_there_and_no_dead_search(browser: Browser, demo: Path) -> None:
    report = opened(browser, demo, scripts=False)

    assert report.page.locator(".parts tbody tr").count() == 32
    assert report.page.locator("article").first.is_visible()
    assert not report.page.locator(".find").is_visible()


def test_it_prints(browser: Browser, demo: Path, pictures: Path) -> None:
    report = opened(browser, demo, scheme="dark")

    printed = report.page.pdf(prefer_css_page_size=True)
    report.page.emulate_media(media="print")

    (pictures / "print.pdf").write_bytes(printed)
    assert printed.startswith(b"%PDF")
    assert report.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert report.page.locator(".maps figure:visible").count() == 2
    assert not report.page.locator(".find").is_visible()


@pytest.mark.slow
def test_ten_thousand_gpus_open(browser: Browser, series: dict[str, Series], tmp_path: Path, pictures: Path) -> None:
    fleet = documents.fleet()
    one = series[documents.uuid(2, 6)]
    path = tmp_path / "fleet.html"
    path.write_text(html.render(fleet, run=documents.run_record(), series=dict.fromkeys(html.wanted_series(fleet), one)), encoding="utf-8")
    report = opened(browser, path)

    report.page.screenshot(path=pictures / "fleet.png")

    assert report.page.locator(".parts tbody tr").count() == 10_000
    assert report.page.locator("article").count() == 212
    heights = "[...document.querySelectorAll('rect.column')].map(bar => bar.getBoundingClientRect().height)"
    assert max(report.page.evaluate(heights)) > 90  # a rule of the style sheet once made them all alike
    assert overflow_px(report.page) == 0
    assert report.troubles == []
    assert report.requests == [path.as_uri()]
