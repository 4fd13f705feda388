"""Checks of the page Run in a browser; see `browser_checks.py`."""

import tempfile
from pathlib import Path
from xml.etree import ElementTree

from browser_checks import PATIENCE, opened, require_accessible, run_checks
from playwright.sync_api import Browser, Page, expect


def run_address(url: str, run: str = "tiny") -> str:
    return f"{url}#page=run&run={run}"


def in_panel(page: Page, name: str, selector: str):
    return page.locator(f"#run-{name} {selector}")


def check_results(browser: Browser, url: str) -> None:
    """Every panel has what the stages wrote, and markup in it is text."""
    with opened(browser, run_address(url)) as page:
        expect(page.locator(".stage[data-state='finished']")).to_have_count(6)
        expect(in_panel(page, "training", "canvas")).to_have_count(2)
        expect(in_panel(page, "training", ".readout").first).to_contain_text("1.25")
        expect(in_panel(page, "evaluation", ".count")).to_have_text(list("3124"))
        expect(in_panel(page, "evaluation", ".example")).to_have_count(2)
        expect(in_panel(page, "evaluation", "table").first).to_contain_text(
            "0.25 to 0.75"
        )
        expect(in_panel(page, "exports", "tbody").first).to_contain_text("64 tokens")
        expect(in_panel(page, "exports", ".run-content")).to_contain_text("1 of 2")
        page.click("#run-exports summary")
        expect(in_panel(page, "exports", "tbody").last).to_contain_text("✗ failed")
        expect(in_panel(page, "data", ".histogram span")).to_have_count(3)
        page.get_by_text("Labels (1)").click()
        expect(in_panel(page, "data", "details table").first).to_be_visible()
        image = in_panel(page, "analysis", "img")
        image.scroll_into_view_if_needed()
        expect(image).to_have_js_property("naturalWidth", 40)
        expect(page.locator("#run-sweep")).to_be_hidden()
        assert page.evaluate("window.hacked") is None
        assert page.locator("#page-run [onerror]").count() == 0


def check_records(browser: Browser, url: str) -> None:
    """Records are turned page by page."""
    with opened(browser, run_address(url)) as page:
        expect(in_panel(page, "records", "li")).to_have_count(5)
        documents = in_panel(page, "records", "li:first-child .record-document")
        expect(documents).to_have_count(6)  # three in each of two rows
        expect(documents.first).to_contain_text("the [MASK] of")
        page.get_by_role("button", name="Next").click()
        expect(in_panel(page, "records", "li")).to_have_count(3)
        expect(page.get_by_role("button", name="Next")).to_be_disabled()
        page.get_by_role("button", name="Previous").click()
        expect(in_panel(page, "records", "h3").first).to_have_text("Record 0")
        page.select_option("#run-records select", "validation")
        expect(in_panel(page, "records", "li")).to_have_count(1)


def check_curves(browser: Browser, url: str) -> None:
    """A cursor reads values, by pointer and by keyboard, along any axis."""
    with opened(browser, run_address(url)) as page:
        canvas = in_panel(page, "training", "canvas").first
        readout = in_panel(page, "training", ".readout").first
        canvas.hover(position={"x": 56, "y": 80})
        expect(readout).to_contain_text("training 2.5 at step 1")
        page.mouse.move(2, 2)
        expect(readout).to_contain_text("training 1.5")
        canvas.focus()
        page.keyboard.press("Home")
        expect(readout).to_contain_text("training 2.5")
        page.keyboard.press("ArrowRight")
        expect(readout).to_contain_text("training 1.5")
        page.keyboard.press("Escape")
        page.select_option("#run-training select", "seconds")
        expect(readout).to_contain_text("at 1 s")
        page.check("#run-log-scale")
        label = canvas.get_attribute("aria-label")
        assert "training from 2.5 to 1.5" in label, label
        page.get_by_text("The log as a table").click()
        expect(in_panel(page, "training", "tbody tr")).to_have_count(3)


def check_head_history(browser: Browser, url: str) -> None:
    """The heads' values over the training are read by pointer and by keyboard."""
    with opened(browser, run_address(url)) as page:
        canvas = in_panel(page, "heads", "canvas")
        readout = in_panel(page, "heads", ".readout")
        expect(in_panel(page, "heads", ".run-content")).to_contain_text("Idle heads")
        canvas.focus()
        page.keyboard.press("ArrowDown")
        expect(readout).to_have_text(
            "encoder layer 0 head 1, step 2 · Entropy (nats): 0.5"
        )
        page.keyboard.press("ArrowLeft")
        expect(readout).to_contain_text("step 1 · Entropy (nats): 2")
        page.keyboard.press("Escape")
        canvas.hover(position={"x": canvas.bounding_box()["width"] - 9, "y": 5})
        expect(readout).to_contain_text("head 0, step 2 · Entropy (nats): 1.5")
        page.select_option("#run-heads-statistic", "participation_ratio")
        page.locator("#run-heads summary").click()
        expect(in_panel(page, "heads", "tbody tr")).to_have_count(1)
        expect(in_panel(page, "heads", "tbody")).to_contain_text("8.5")
        require_accessible(page)
        page.select_option("#run", "without")
        expect(page.locator("#run-heads")).to_be_hidden()


def check_run_files(browser: Browser, url: str) -> None:
    """Curves and reports are saved."""
    with (
        tempfile.TemporaryDirectory() as name,
        opened(browser, run_address(url)) as page,
    ):
        file = Path(name, "file")
        for kind in ("PNG", "SVG"):
            with page.expect_download() as found:
                page.get_by_role(
                    "button", name=f"loss: Save this view as {kind}"
                ).click()
            found.value.save_as(file)
            if kind == "SVG":
                ElementTree.fromstring(file.read_bytes())
            else:
                assert file.read_bytes().startswith(b"\x89PNG")
        with page.expect_download() as found:
            page.get_by_role("button", name="Save the report: Analysis").click()
        assert found.value.suggested_filename == "tiny-analysis_report.html"


def check_page_as_a_file(browser: Browser, url: str) -> None:
    """A saved page shows the same offline, without scripts, and markup stays text."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name, "saved.html")
        with opened(browser, run_address(url)) as page:
            expect(in_panel(page, "records", "li")).to_have_count(5)
            with page.expect_download() as found:
                page.click("#save-page")
            assert found.value.suggested_filename == "tiny_Run.html"
            found.value.save_as(file)
            said = page.locator("#run-evaluation .run-content").inner_text()
        assert "<script" not in file.read_text("utf-8")
        with opened(browser, file.as_uri(), ready=False) as page:
            page.context.set_offline(True)
            assert page.locator("#run-evaluation .run-content").inner_text() == said
            images = page.locator("main img")
            assert images.count() > 2  # curves, heads, and the analysis
            sizes = images.evaluate_all("all => all.map(one => one.naturalWidth)")
            assert all(sizes), sizes
            assert page.evaluate("window.hacked") is None
            require_accessible(page)


def check_panel_pictures(browser: Browser, url: str) -> None:
    """A panel is saved as it is shown, with hostile text in it."""
    with (
        tempfile.TemporaryDirectory() as name,
        opened(browser, run_address(url)) as page,
    ):
        file = Path(name, "file")
        for panel in ("stages", "evaluation", "data", "records"):
            content = in_panel(page, panel, ".run-content")
            width = content.evaluate("one => one.scrollWidth")
            for kind in ("png", "svg"):
                with page.expect_download() as found:
                    in_panel(page, panel, f".panel-head [data-kind={kind}]").click()
                found.value.save_as(file)
                if kind == "svg":
                    root = ElementTree.fromstring(file.read_bytes())
                    assert root.get("width") == str(width + 32)
                else:
                    header = file.read_bytes()[:24]
                    assert header.startswith(b"\x89PNG")
                    assert int.from_bytes(header[16:20]) == 2 * (width + 32)


def check_what_is_missing(browser: Browser, url: str) -> None:
    """Panels without results name a command, and damage stays in its panel."""
    with opened(browser, run_address(url, "without")) as page:
        expect(in_panel(page, "data", ".error")).to_contain_text("manifest.json")
        for panel, command in (
            ("evaluation", "transbeam evaluate"),
            ("exports", "transbeam export"),
            ("analysis", "transbeam analyze"),
        ):
            expect(in_panel(page, panel, "code").first).to_contain_text(command)
        expect(page.locator("#run-records")).to_be_hidden()
        require_accessible(page)
        page.select_option("#run", "tiny")
        expect(in_panel(page, "training", "canvas")).to_have_count(2)
        expect(in_panel(page, "data", ".error")).to_have_count(0)
        page.get_by_role("link", name="Inside").click()
        expect(page.locator("#views")).to_be_visible(timeout=PATIENCE)
        expect(page.locator("#page-run")).to_be_hidden()


def check_run_accessible(browser: Browser, url: str) -> None:
    """Axe finds nothing, in both themes, and nothing is wider than the window."""
    for scheme in ("light", "dark"):
        with opened(browser, run_address(url), scheme=scheme) as page:
            expect(in_panel(page, "records", "li")).to_have_count(5)
            page.get_by_role("button", name="Analysis", exact=True).click()
            expect(page.locator("#run-analysis-title")).to_be_focused()
            require_accessible(page)
    for width in (360, 768, 2560):
        with opened(browser, run_address(url), width=width) as page:
            expect(in_panel(page, "records", "li")).to_have_count(5)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, (width, wide)


def check_live_training(browser: Browser, url: str) -> None:
    """Curves move while a run trains, and its results come at the end."""
    with opened(browser, run_address(url, "training")) as page:
        live = page.locator("#run-live")
        expect(live).to_contain_text("of step", timeout=PATIENCE)
        before = live.inner_text()
        expect(live).not_to_have_text(before, timeout=PATIENCE)
        expect(in_panel(page, "training", "canvas")).to_have_count(1)
        require_accessible(page)
        expect(live).to_be_hidden(timeout=PATIENCE)
        expect(in_panel(page, "training", ".run-facts")).to_contain_text("20")
        expect(page.locator("#status")).to_contain_text("finished")


if __name__ == "__main__":
    run_checks(globals())
