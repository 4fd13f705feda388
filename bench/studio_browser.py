"""Opens the studio's page in Chromium and times it: a part of `bench.studio`.

    studio_browser.py CHROMIUM URL

Runs in an environment with Playwright, and writes milliseconds as JSON.
"""

import json
import statistics
import sys
from urllib.parse import quote

from playwright.sync_api import Page, sync_playwright

ROUNDS = 5
TEXT = "return the shape of the same value as a list or type of this argument, " * 60
# From each event of the pointer to the frame after it, which is painted by then.
WATCH = """
window.taken = [];
window.addEventListener("pointermove", (event) => {
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => taken.push(performance.now() - event.timeStamp);
    channel.port2.postMessage(0);
  });
}, { capture: true });
"""
PAINT = """performance.getEntriesByName("first-contentful-paint")[0].startTime"""
READY = "() => Number(document.body.dataset.ready ?? 0) > {}"


def main() -> None:
    """Measures in several visits; the first one, which loads the model, is left out."""
    chromium, url = sys.argv[1:]
    url = f"{url.partition('#')[0]}#in.text={quote(TEXT)}"
    found: dict[str, list[float]] = {
        name: [] for name in ("first_paint", "ready", "hover", "hover_95", "layer")
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"]
        )
        tokens = 0
        for number in range(ROUNDS + 1):
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            page = context.new_page()
            page.set_default_timeout(300_000)
            page.goto(url)
            page.wait_for_function(READY.format(0))
            taken = {"ready": page.evaluate("performance.now()")}
            taken["first_paint"] = page.evaluate(PAINT)
            hovers = _hover(page)
            taken["hover"] = statistics.median(hovers)
            taken["hover_95"] = statistics.quantiles(hovers, n=20)[-1]
            taken["layer"] = _change_layer(page)
            tokens = page.locator(".chip").count()
            context.close()
            if number:
                for name, value in taken.items():
                    found[name].append(value)
        print(json.dumps(found | {"version": browser.version, "tokens": tokens}))
        browser.close()


def _hover(page: Page) -> list[float]:
    """Moves over the map of one head, and returns the milliseconds of each event."""
    page.click("[data-view=map]")
    place = page.locator("#panel-map .marks, #panel-map canvas").last
    place.scroll_into_view_if_needed()
    box = place.bounding_box()
    assert box is not None
    page.evaluate(WATCH)
    for step in range(60):
        part = 0.1 + 0.8 * step / 60
        page.mouse.move(box["x"] + part * box["width"], box["y"] + part * box["height"])
        page.wait_for_timeout(30)
    return page.evaluate("taken")


def _change_layer(page: Page) -> float:
    """Chooses another layer, and returns the milliseconds until it is drawn."""
    before = page.evaluate("Number(document.body.dataset.ready)")
    began = page.evaluate("performance.now()")
    page.select_option("#layer", "7")
    page.wait_for_function(READY.format(before))
    return page.evaluate("performance.now()") - began


if __name__ == "__main__":
    main()
