"""Checks of the page in a browser, as a person would use it.

Runs in an environment with Playwright: `python browser_checks.py CHROMIUM URL CHECK`.
Every check also fails if the page logs an error, sends a request elsewhere, or gets an
answer that it did not expect.
"""

import re
import sys
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

TEXT = "returns a tensor of the same shape"
HOSTILE = (
    "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script> "
    "\u202eabc שלום 👩\u200d👩\u200d👧 &amp; \u0000 '\"` ${1}"
)
PATIENCE = 60_000  # milliseconds; a model is loaded first
MARKED, MARKS = ".chip.marked", "#panel-map .marks"
VIEWS = ("lines", "map", "tree", "radar", "score")
PICTURES = ("one", "overview", "lens", "flow")
TITLE, LINES = "#one-title", "#panel-lines canvas"


@contextmanager
def opened(
    browser: Browser,
    url: str,
    *,
    width: int = 1280,
    height: int = 900,
    scheme: str = "light",
    ready: bool = True,
    refused: tuple[int, ...] = (),
):
    """Opens the page, and looks for errors and foreign requests at the end."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme
    )
    page = context.new_page()
    problems: list[str] = []
    origin = urlsplit(url).netloc

    def on_console(message):
        # The browser itself logs answers with an error status.
        if message.type in ("error", "warning") and not refused:
            problems.append(message.text)

    def on_response(response):
        if response.status >= 400 and response.status not in refused:
            problems.append(f"{response.status} {response.url}")

    def on_request(request):
        parts = urlsplit(request.url)
        if parts.scheme not in ("blob", "data") and parts.netloc != origin:
            problems.append(f"a request to {request.url}")

    page.on("console", on_console)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("response", on_response)
    page.on("request", on_request)
    page.goto(url)
    if ready:
        selector = "body[data-ready], #error:not([hidden])"
        page.wait_for_selector(selector, timeout=PATIENCE)
        expect(page.locator("#error")).to_be_hidden()
    yield page
    assert not problems, problems
    context.close()


def with_state(url: str, text: str = TEXT, **state) -> str:
    """The address of a view."""
    values = "".join(f"&{name}={value}" for name, value in state.items())
    return f"{url}#in.text={quote(text)}{values}"


def require_accessible(page: Page) -> None:
    found = Axe().run(page).response["violations"]
    shown = [(each["id"], [node["html"] for node in each["nodes"]]) for each in found]
    assert not shown, shown


def require_pictures(page: Page, view: str, folder: Path, *, least: int) -> None:
    """Saves a view as PNG, of so many bytes at least, and as SVG with text."""
    for kind in ("png", "svg"):
        with page.expect_download() as found:
            page.click(f"[data-save={view}] [data-kind={kind}]")
        file = folder / found.value.suggested_filename
        found.value.save_as(file)
        content = file.read_bytes()
        if kind == "png":
            assert content.startswith(b"\x89PNG")
            assert len(content) > least
        else:
            parts = {node.tag for node in ElementTree.fromstring(content)}
            assert "{http://www.w3.org/2000/svg}text" in parts


def check_views(browser: Browser, url: str) -> None:
    """Each view opens and follows the selection."""
    with opened(browser, with_state(url)) as page:
        expect(page.locator("#facts li").nth(1)).to_contain_text("layers")
        assert page.locator(".chip").count() > 8
        assert page.locator("button.cell").count() == 4
        expect(page.locator("#numbers dl > div")).to_have_count(7)
        page.click("button.cell[data-layer='1'][data-head='1']")
        expect(page.locator(TITLE)).to_have_text("Layer 1, head 1")
        page.click("#tab-map")
        expect(page.locator("#panel-lines")).to_be_hidden()
        expect(page.locator("#panel-map canvas")).to_be_visible()
        page.select_option("#metric", "entropy")
        assert float(page.locator("button.cell").first.inner_text()) > 0
        page.select_option("#from", "1")
        expect(page.locator("button.cell")).to_have_count(2)
        page.select_option("#head", "max")
        expect(page.locator(TITLE)).to_contain_text("maximum")
        page.check("#words")
        expect(page.locator("#numbers")).to_contain_text("added over the pieces")
        page.uncheck("#special")
        page.check("#ids")
        expect(page.locator(".chip small").first).to_be_visible()
        page.fill("textarea", "a list")
        page.press("textarea", "Control+Enter")
        expect(page.locator(".chip")).to_have_count(5)


def check_kinds_of_tokens(browser: Browser, url: str) -> None:
    """Special tokens and punctuation are left out of the views, and of the link."""
    with opened(browser, with_state(url, "a list , of names .")) as page:
        page.click("#tab-map")
        picture = "document.querySelector('#panel-map canvas').toDataURL()"
        for name in ("punctuation", "special"):
            before = page.evaluate(picture)
            page.uncheck(f"#{name}")
            page.wait_for_function(f"before => {picture} !== before", arg=before)
            assert f"{name}=0" in page.url
        units = """async ([texts, options]) => {
          const { makeUnits } = await import('./base/attention.js');
          let start = 0;
          const tokens = texts.map((piece, word) => {
            const end = start + piece.length;
            const made = { piece, word, text: 0, start, end, special: false };
            start = end;
            return made;
          });
          return makeUnits({ texts: [texts.join('')], tokens }, options)
            .map(({ label }) => label);
        }"""
        kinds = {"words": False, "special": True, "punctuation": False}
        some = page.evaluate(units, [["a", ",", "b", "?!", "é"], kinds])
        assert some == ["a", "b", "é"]
        assert page.evaluate(units, [[".", "…"], kinds]) == [".", "…"]


def check_hover(browser: Browser, url: str) -> None:
    """Tokens, lines, map and numbers point at the same token."""
    with opened(browser, with_state(url)) as page:
        pair = page.locator("#pair")
        chips = page.locator(".chip")
        chips.nth(3).hover()
        expect(page.locator(MARKED)).to_have_count(1)
        expect(pair).to_contain_text("→")
        expect(page.locator("#numbers h3")).to_contain_text("“")
        page.locator(LINES).hover(position={"x": 60, "y": 16})
        expect(chips.first).to_have_class("chip special marked")
        before = pair.inner_text()
        page.locator(LINES).hover(position={"x": 60, "y": 64})
        expect(pair).not_to_have_text(before)
        page.mouse.move(2, 2)
        expect(page.locator(MARKED)).to_have_count(0)
        page.click("#tab-map")
        box = page.locator("#panel-map canvas").bounding_box()
        page.locator(MARKS).hover(position={"x": box["width"] / 2, "y": 200})
        expect(page.locator("#panel-map .mark").first).to_be_visible()
        expect(page.locator(MARKED)).to_have_count(1)
        # A held token stays chosen.
        chips.nth(2).click()
        page.mouse.move(2, 2)
        expect(chips.nth(2)).to_have_attribute("aria-selected", "true")
        assert "held=query.2" in page.url
        # In the other direction the same token is attended to.
        page.keyboard.press("Escape")
        page.get_by_text("is attended by").click()
        chips.nth(2).click()
        assert "held=key.2" in page.url


def check_predictions(browser: Browser, url: str) -> None:
    """Each layer's predictions are read, and a decoder's are explained."""
    with opened(browser, with_state(url)) as page:
        cells = page.locator("#lens-view .scroller canvas")
        expect(cells).to_be_hidden()
        page.click("#lens summary")
        expect(cells).to_be_visible()
        expect(page.locator("#lens-view .hint").first).to_contain_text("logit lens")
        assert "lens=1" in page.url
        # The second token, in the last layer: its own prediction.
        cells.hover(position={"x": 34 + 74 + 20, "y": 36})
        said = page.locator("#lens-view .pair")
        expect(said).to_contain_text("L1, at “ret")
        expect(said).to_contain_text("is here number 1.")
        expect(page.locator(MARKED)).to_have_count(1)
        # An encoder's head is not linear.
        cells.click(position={"x": 34 + 74 + 20, "y": 36})
        expect(page.locator("#lens-view h3")).to_be_hidden()
    with opened(browser, with_state(url, run="causal", lens=1)) as page:
        expect(page.locator("#lens-view .hint").first).to_contain_text("logit lens")
        page.focus("#lens-view .scroller canvas")
        for key in ("ArrowRight", "ArrowRight", "Enter"):
            page.keyboard.press(key)
        expect(page.locator("#lens-view h3")).to_contain_text("Why “")
        expect(page.locator("#lens-view h3 + .hint")).to_contain_text("minus")
        require_accessible(page)


def check_flow(browser: Browser, url: str) -> None:
    """The flow follows the token that is pointed at; cross-attention has none."""
    with opened(browser, with_state(url, flow=1)) as page:
        flow = page.locator("#flow-view canvas")
        flow.hover(position={"x": 30, "y": 24 + 22 * 2 + 8})
        expect(page.locator(MARKED)).to_have_count(1)
        expect(page.locator(".chip").nth(2)).to_have_class(re.compile("marked"))
        # Links are divided, never lost.
        sums = page.evaluate(
            """async () => {
              const { spread } = await import("./inside/flow_view.js");
              const maps = Float32Array.of(1, 0, 0.5, 0.5, 0.75, 0.25, 0, 1);
              return [...spread(maps, 2, 2, [0]).amounts];
            }"""
        )
        assert sums == [0.875, 0.125, 0.75, 0.25, 1, 0]
    with opened(browser, f"{url}#run=seq2seq&group=cross_attention&flow=1") as page:
        expect(page.locator("#flow-view .hint")).to_contain_text("self-attention")
        expect(page.locator("#flow-view canvas")).to_be_hidden()


def check_stages(browser: Browser, url: str) -> None:
    """Every array of the text's way has its shape."""
    with opened(browser, with_state(url, stages=1)) as page:
        rows = page.locator("#stages tbody tr")
        expect(rows.first).to_contain_text(f"{len(TEXT)} characters")
        tokens = page.locator(".chip").count()
        ids = rows.filter(has_text=re.compile("^token ids"))
        expect(ids).to_contain_text(str(tokens))
        output = rows.filter(has_text="layer 1 · output")
        expect(output).to_contain_text(f"{tokens} × 32")


def check_score(browser: Browser, url: str) -> None:
    """A score is shown for the pair that is chosen, or held."""
    with opened(browser, with_state(url, view="score", layer=1, head=1)) as page:
        hint = page.locator("#panel-score .hint")
        expect(hint).to_contain_text("The score of")
        page.locator("#panel-score select").nth(1).select_option("0")
        expect(hint).to_contain_text("→ “[CLS]”")
        page.locator(".chip").nth(2).click()
        chosen = page.locator("#panel-score select").first
        expect(chosen).to_have_value("2")
        page.select_option("#head", "mean")
        expect(hint).to_contain_text("single head")


def check_tree(browser: Browser, url: str) -> None:
    """The tree grows from the token that is pointed at."""
    with opened(browser, with_state(url, view="tree", children=2)) as page:
        expect(page.locator("#panel-tree select").first).to_have_value("2")
        page.locator(".chip").nth(3).hover()
        piece = page.locator(".chip").nth(3).inner_text().strip()
        expect(page.locator("#panel-tree .hint")).to_contain_text(f"{piece}”")
        page.select_option("#panel-tree select >> nth=1", "3")
        assert "depth=3" in page.url
        # By hand: 0 attends most to 1 and 2, 1 to 2, which is in the tree already.
        found = page.evaluate(
            """async () => {
              const { growTree } = await import("./inside/tree_view.js");
              const units = [{}, {}, {}];
              const weights = [0.1, 0.6, 0.3, 0.2, 0.3, 0.5, 0.9, 0.1, 0];
              const view = { weights, queries: units, keys: units };
              const one = growTree(view, 0, 1, 2, 0);
              const child = one.children[0];
              return [child.unit, child.weight, child.children[0].unit];
            }"""
        )
        assert found == [1, 0.6, 2]


def check_keyboard(browser: Browser, url: str) -> None:
    """Everything can be reached and chosen without a pointer."""
    with opened(browser, with_state(url)) as page:
        page.focus("button.cell[tabindex='0']")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        expect(page.locator(TITLE)).to_have_text("Layer 1, head 1")
        page.focus(".chip")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        expect(page.locator(".chip").nth(1)).to_have_attribute("aria-selected", "true")
        page.keyboard.press("Escape")
        expect(page.locator("[aria-selected='true'].chip")).to_have_count(0)
        page.focus(LINES)
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        expect(page.locator(".chip").nth(1)).to_have_class("chip marked")
        page.focus("#tab-lines")
        page.keyboard.press("ArrowRight")
        expect(page.locator("#tab-map")).to_be_focused()
        page.focus(MARKS)
        before = page.locator("#pair").inner_text()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        expect(page.locator("#pair")).not_to_have_text(before)


def check_link(browser: Browser, url: str) -> None:
    """A link restores the view."""
    with opened(browser, with_state(url, "a list of names")) as page:
        page.click("button.cell[data-layer='1'][data-head='0']")
        page.click("#tab-map")
        page.select_option("#metric", "distance")
        page.check("#words")
        page.locator("#threshold").fill("30")
        page.locator(".chip").nth(2).click()
        expect(page.locator("#numbers h3")).to_contain_text("“")
        link, title = page.url, page.locator(TITLE).inner_text()
        pair = page.locator("#pair").inner_text()
    with opened(browser, link) as page:
        assert page.input_value("textarea") == "a list of names"
        expect(page.locator(TITLE)).to_have_text(title)
        expect(page.locator("#panel-map")).to_be_visible()
        expect(page.locator("#pair")).to_have_text(pair)
        expect(page.locator("#metric")).to_have_value("distance")
        expect(page.locator("#words")).to_be_checked()
        expect(page.locator("#threshold-value")).to_have_text("0.090")
    # One that nobody made opens as well.
    state = {"layer": 99, "head": 99, "view": "x", "metric": "x", "held": "key.999"}
    with opened(browser, with_state(url, **state, run="gone")) as page:
        expect(page.locator(TITLE)).to_have_text("Layer 1, head 1")


def check_hostile(browser: Browser, url: str) -> None:
    """Markup stays text, and a text that is too long is cut and said to be."""
    with opened(browser, with_state(url, HOSTILE)) as page:
        assert page.evaluate("window.hacked") is None
        assert page.locator("#pieces img").count() == 0
    with opened(browser, url) as page:
        # A megabyte, which would take long to type.
        page.evaluate(
            "document.querySelector('textarea').value = 'a list '.repeat(1.5e5)"
        )
        page.click("#look")
        expect(page.locator("#error")).to_be_hidden()
        expect(page.locator("#status")).to_contain_text("was cut", timeout=PATIENCE)
        assert len(page.url) < 10_000
        page.fill("textarea", "")
        page.click("#look")
        expect(page.locator(".chip")).to_have_count(2)


def check_no_maps(browser: Browser, url: str) -> None:
    """A model without maps says why."""
    with opened(browser, f"{url}#run=without", ready=False) as page:
        expect(page.locator("#no-maps")).to_contain_text("low_rank")
        expect(page.locator("#look")).to_be_disabled()
        expect(page.locator("#views")).to_be_hidden()
        require_accessible(page)
        page.select_option("#run", "tiny")
        expect(page.locator("#views")).to_be_visible(timeout=PATIENCE)
        expect(page.locator("#no-maps")).to_be_hidden()


def check_accessible(browser: Browser, url: str) -> None:
    """Axe finds nothing, in both themes and both views."""
    for scheme in ("light", "dark"):
        for view in VIEWS:
            sections = {"stages": 1, "lens": 1, "flow": 1}
            address = with_state(
                url, view=view, held="query.2", metric="self", **sections
            )
            with opened(browser, address, scheme=scheme) as page:
                require_accessible(page)
    with opened(browser, with_state(url)) as page:
        light = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.select_option("#theme", "dark")
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert light != dark


def check_widths(browser: Browser, url: str) -> None:
    """Nothing is wider than the window."""
    for width in (360, 768, 1280, 2560):
        for view in VIEWS:
            address = with_state(url, view=view, stages=1, lens=1, flow=1)
            with opened(browser, address, width=width) as page:
                wide = page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, (width, wide)
                box = page.locator(f"#panel-{view}").bounding_box()
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= width


def check_pictures(browser: Browser, url: str) -> None:
    """Views are saved as PNG and SVG."""
    with (
        tempfile.TemporaryDirectory() as name,
        opened(browser, with_state(url, HOSTILE, lens=1, flow=1)) as page,
    ):
        for view in VIEWS:
            page.click(f"#tab-{view}")
            for what in PICTURES if view == "lines" else ("one",):
                require_pictures(page, what, Path(name), least=10_000)


def check_saved_page(browser: Browser, url: str) -> None:
    """A saved page works as a file, offline, and restores the view."""
    text = f"{TEXT} </script><b> &amp;"
    with tempfile.TemporaryDirectory() as name:
        file = Path(name, "saved.html")
        view = {"view": "map", "layer": 1, "head": 1, "lens": 1, "stages": 1}
        with opened(browser, with_state(url, text, **view)) as page:
            with page.expect_download() as found:
                page.click("#save-page")
            assert found.value.suggested_filename.endswith(".html")
            found.value.save_as(file)
            said = page.locator("#one-title").inner_text()
            tokens = page.locator(".chip").all_inner_texts()
        with opened(browser, file.as_uri()) as page:
            page.context.set_offline(True)
            assert page.input_value("textarea") == text
            assert page.locator(".chip").all_inner_texts() == tokens
            expect(page.locator(TITLE)).to_have_text(said)
            expect(page.locator("#look")).to_be_disabled()
            expect(page.locator("#stages tbody tr").first).to_be_visible()
            page.locator(".chip").nth(3).hover()
            expect(page.locator(MARKED)).to_have_count(1)
            page.click("button.cell[data-layer='0'][data-head='0']")
            expect(page.locator(TITLE)).to_have_text("Layer 0, head 0")
            page.click("#flow summary")
            expect(page.locator("#flow-view canvas")).to_be_visible()
            # A view that needs the model names the missing server.
            page.click("#tab-score")
            expect(page.locator("#error")).to_contain_text("no server")


def check_pair(browser: Browser, url: str) -> None:
    """Encoder and decoder have rows of their own, and cross-attention links them."""
    with opened(browser, f"{url}#run=seq2seq") as page:
        expect(page.locator("textarea")).to_have_count(2)
        page.select_option("#group", "cross_attention")
        expect(page.locator("#pieces h3")).to_have_text(["Encoder", "Decoder"][::-1])
        rows = page.locator(".pieces")
        rows.first.locator(".chip").nth(1).hover()
        expect(rows.first.locator(MARKED)).to_have_count(1)
        page.click("#tab-map")
        rows.last.locator(".chip").nth(1).hover()
        expect(rows.last.locator(MARKED)).to_have_count(1)
        require_accessible(page)
    with opened(browser, f"{url}#run=causal&view=map") as page:
        expect(page.locator("#facts")).to_contain_text("causal")


def check_token(browser: Browser, url: str) -> None:
    """A server with a token asks for it."""
    with opened(browser, url, ready=False, refused=(401,)) as page:
        expect(page.locator("#token-form")).to_be_visible()
        page.fill("#token", "wrong")
        page.press("#token", "Enter")
        expect(page.locator("#error")).to_contain_text("token")
        page.fill("#token", "secret")
        page.press("#token", "Enter")
        expect(page.locator("#views")).to_be_visible(timeout=PATIENCE)
        expect(page.locator("#token-form")).to_be_hidden()
        assert "secret" not in page.url


def run_checks(names: dict[str, Any]) -> None:
    """Runs the check that the command line names, one of a script's functions."""
    chromium, url, name = sys.argv[1:]
    check: Callable[[Browser, str], None] = names[f"check_{name}"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox"],  # it has none for root
        )
        check(browser, url)
        browser.close()


if __name__ == "__main__":
    run_checks(globals())
