"""Checks of the page Compare in a browser; see `browser_checks.py`."""

import tempfile
from pathlib import Path

from browser_checks import (
    HOSTILE,
    PATIENCE,
    opened,
    require_accessible,
    require_pictures,
    run_checks,
)
from playwright.sync_api import Browser, Page, expect

TEXT = "returns a [MASK] of the same [MASK]"
CARD, CELL = "#compare-cards .card", "#compare-grid button.cell"
ANSWERS, NUMBERS = "#compare-answers", "#compare-numbers"


def compared(url: str, text: str = TEXT, **state) -> str:
    """The address of a comparison."""
    values = "".join(f"&{name}={value}" for name, value in state.items())
    return f"{url}#page=compare&in.text={text.replace(' ', '+')}{values}"


def difference(page: Page, selector: str) -> list[float]:
    """Differences in their order on the page."""
    found = page.locator(selector).all_inner_texts()
    return [abs(float(text.split()[-1].replace("−", "-"))) for text in found]


def check_two_checkpoints(browser: Browser, url: str) -> None:
    """Predictions, heads and numbers, the largest differences first."""
    address = compared(url, run="tiny", runB="tiny", formB="checkpoint.5")
    with opened(browser, address) as page:
        expect(page.locator("#compare-form-b")).to_have_value("checkpoint.5")
        expect(page.locator(f"{ANSWERS} .prediction")).to_have_count(2)
        for selector in (f"{ANSWERS} .badge", f"{CARD} b", f"{NUMBERS} td.difference"):
            found = difference(page, selector)
            assert len(found) >= 2, selector
            assert found == sorted(found, reverse=True), selector
            assert found[0] > 0
        # The head that differs most is shown large, until another one is chosen.
        expect(page.locator(CARD).first).to_have_attribute("aria-pressed", "true")
        page.locator(CARD).nth(1).click()
        expect(page.locator(CARD).nth(1)).to_have_attribute("aria-pressed", "true")
        name = page.locator(f"{CARD} .card-head").nth(1).inner_text()
        layer, head = name[1], name.split("head ")[1][0]
        # A head that was chosen on the page Inside is not one of this page.
        inside = f"{address}&layer={layer}&head={head}"
        with opened(browser, inside) as other:
            expect(other.locator(CARD).first).to_have_attribute("aria-pressed", "true")
        title = page.locator("#compare-one-title")
        expect(title).to_have_text(
            f"Layer {layer}, head {head}: A, B and the difference"
        )
        selected = page.locator(f"{CELL}[aria-selected='true']")
        expect(selected).to_have_attribute("data-head", head)
        page.select_option("#compare-grid-choice", "number")
        expect(page.locator(CELL).first).not_to_have_text("")
        assert float(page.locator(CELL).first.inner_text()) > 0
        page.select_option("#compare-number-choice", "distance")
        expect(page.locator("#compare-number-hint")).to_contain_text("Distance")
        page.locator("#compare-map-b .marks").hover(position={"x": 150, "y": 150})
        expect(page.locator("#compare-pair")).to_contain_text("difference")
        for name in ("a", "b", "difference"):
            marks = page.locator(f"#compare-map-{name} .mark")
            expect(marks.first).to_be_visible()
        # By the keyboard.
        page.focus(f"{CELL}[tabindex='0']")
        page.locator(CELL).first.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        expect(title).to_contain_text("Layer 0, head 1")
        page.fill("#compare-texts textarea", "a [MASK] of names")
        page.press("#compare-texts textarea", "Control+Enter")
        expect(page.locator(f"{ANSWERS} .prediction")).to_have_count(1)


def check_same(browser: Browser, url: str) -> None:
    """A run compared with itself has no difference."""
    with opened(browser, compared(url, run="tiny", runB="tiny")) as page:
        expect(page.locator("#status")).to_have_text(
            "On this text there is no difference."
        )
        assert set(difference(page, f"{ANSWERS} .badge")) == {0}
        assert set(difference(page, f"{CARD} b")) == {0}
        assert set(difference(page, f"{NUMBERS} td.difference")) == {0}
        expect(page.locator("#compare-map-difference canvas")).to_be_visible()


def check_others(browser: Browser, url: str) -> None:
    """Other sizes, kinds and inputs are named."""
    with opened(browser, compared(url, run="tiny", runB="causal")) as page:
        expect(page.locator(ANSWERS)).to_contain_text("fills")
        expect(page.locator("#compare-no-maps")).to_contain_text("other tokens")
        expect(page.locator("#compare-grid")).to_be_hidden()
        page.select_option("#compare-run-b", "without")
        expect(page.locator("#compare-no-maps")).to_contain_text(
            "low_rank", timeout=PATIENCE
        )
        expect(page.locator(f"{ANSWERS} .prediction")).to_have_count(2)
        page.select_option("#compare-run-b", "seq2seq")
        expect(page.locator("#compare-why")).to_contain_text("text of the decoder")
        expect(page.locator("#compare-go")).to_be_disabled()
        expect(page.locator("#compare-views")).to_be_hidden()
        require_accessible(page)
        page.select_option("#compare-run-b", "tiny")
        expect(page.locator("#compare-grid")).to_be_visible()
        page.select_option("#run", "seq2seq")
        expect(page.locator("#compare-texts textarea")).to_have_count(2)
        expect(page.locator("#compare-run-b")).to_have_value("seq2seq")
        expect(page.locator("#compare-group-choice")).to_be_visible(timeout=PATIENCE)
        page.select_option("#compare-group-choice", "cross_attention")
        expect(page.locator(CARD).first).to_be_visible()
        expect(page.locator(f"{ANSWERS} .written")).to_have_count(2)


def check_compare_link(browser: Browser, url: str) -> None:
    """A link restores the comparison."""
    address = compared(url, run="tiny", runB="tiny", formB="checkpoint.5")
    with opened(browser, address) as page:
        page.locator(CARD).first.click()
        page.select_option("#compare-grid-choice", "number")
        page.select_option("#compare-number-choice", "confidence")
        title = page.locator("#compare-one-title").inner_text()
        card = page.locator(CARD).first.inner_text()
        link = page.url
    with opened(browser, link) as page:
        expect(page.locator("#compare-one-title")).to_have_text(title)
        assert page.locator(CARD).first.inner_text() == card
        expect(page.locator("#compare-grid-choice")).to_have_value("number")
        expect(page.locator("#compare-number-choice")).to_have_value("confidence")
        expect(page.locator("#compare-form-b")).to_have_value("checkpoint.5")
        assert page.input_value("#compare-texts textarea") == TEXT
        page.click("#pages a[data-page=inside]")
        expect(page.locator("#views")).to_be_visible(timeout=PATIENCE)
        assert page.input_value("#texts textarea") == TEXT
    # One that nobody made opens as well.
    state = {"layer": 99, "head": "max", "chosen": 1, "grid": "x", "number": "x"}
    address = compared(url, run="causal", runB="gone", formA="x.y", formB="x", **state)
    with opened(browser, address) as page:
        expect(page.locator("#compare-one-title")).to_contain_text("Layer 1")


def check_compare_hostile(browser: Browser, url: str) -> None:
    """Markup stays text."""
    with opened(browser, compared(url, run="causal", runB="causal")) as page:
        page.fill("#compare-texts textarea", HOSTILE)
        page.click("#compare-go")
        expect(page.locator(f"{ANSWERS} .prediction").first).to_be_visible()
        expect(page.locator("#status")).not_to_contain_text("Computing")
        assert page.evaluate("window.hacked") is None
        assert page.locator("#compare-views img").count() == 0
        page.get_by_role("button", name="Show all").first.click()
        assert page.locator(f"{ANSWERS} .prediction").count() > 6


def check_compare_looks(browser: Browser, url: str) -> None:
    """Axe finds nothing, and nothing is wider than the window."""
    address = compared(url, run="tiny", runB="tiny", formB="checkpoint.5")
    for scheme in ("light", "dark"):
        with opened(browser, address, scheme=scheme) as page:
            require_accessible(page)
    for width in (360, 768, 1280, 2560):
        with opened(browser, address, width=width) as page:
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, (width, wide)


def check_compare_pictures(browser: Browser, url: str) -> None:
    """Views are saved as PNG and SVG."""
    address = compared(url, run="tiny", runB="tiny", formB="checkpoint.5")
    with tempfile.TemporaryDirectory() as name, opened(browser, address) as page:
        for view in ("answers", "grid", "cards", "large"):
            require_pictures(page, view, Path(name), least=5_000)


if __name__ == "__main__":
    run_checks(globals())
