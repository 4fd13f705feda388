"""Checks of the page Try in a browser, as a person would use it.

Runs in an environment with Playwright: `python try_checks.py CHROMIUM URL CHECK`; see
`browser_checks.py`.
"""

import base64
import json
import os
import struct
import subprocess
import tempfile
import zlib
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree

from browser_checks import HOSTILE, opened, require_accessible, run_checks
from playwright.sync_api import Browser, Page, expect

PATIENCE = 180_000  # milliseconds; exports are loaded first
ANSWER, STATUS = "#try-answer", "#status"
MASKED = "returns a [MASK] of the same [MASK]"
# Of every form that the page shows: outputs of a signature for one request.
OUTPUTS = {
    "classes": {"label": ["no"], "classes": [["yes", "no"]], "scores": [[0.25, 0.75]]},
    "number": {"score": [0.12345]},
    "tags": {
        "words": [["Ada", "👩🏽", "London", ""]],
        "starts": [[0, 4, 10, 0]],
        "ends": [[3, 6, 16, 0]],
        "tags": [["B-PER", "O", "B-LOC", ""]],
        "scores": [[0.9, 0.5, 0.8, 0]],
        "entities": [["Ada", "London"]],
        "entity_types": [["PER", "LOC"]],
        "entity_starts": [[0, 10]],
        "entity_ends": [[3, 16]],
    },
    "span": {
        "answer": ["London"],
        "start": [10],
        "end": [16],
        "score": [2.5],
        "no_answer_score": [3.5],
    },
    "embedding": {"embedding": [[3, 4], [4, 3]]},
    "likelihood": {"log_likelihood": [-6.0], "num_tokens": [3]},
    "gaps": {"gaps": [["<extra_id_0>", ""]], "fills": [["a list", ""]]},
}
TEXTS = {"text": "Ada 👩🏽 in London", "context": "Ada 👩🏽 in London"}
EXPECTED = {
    "classes": ("no", "75.0%"),
    "number": ("0.1235",),
    "tags": ("AdaPER", "LondonLOC", "All 3 words"),
    "span": ("London", "3.5", "has a higher score"),
    "embedding": ("0.96", "5 · 5"),
    "likelihood": ("7.389",),
    "gaps": ("a list",),
}
# Elements of the answers of real exports: a selector, and their smallest number.
REAL = {
    "masked": (".card li", 3),
    "sentence_pairs": (".bars li", 2),
    "span_corruption": (".numbers dd", 1),
    "classification": (".bars li", 2),
    "multi_label_classification": (".bars li", 2),
    "pair_classification": (".bars li", 2),
    "regression": (".numbers dd", 1),
    "pair_regression": (".numbers dd", 1),
    "token_classification": ("tbody tr", 4),
    "span_qa": (".numbers dd", 2),
    "contrastive_pairs": (".numbers dd", 2),
    "image_classification": (".bars li", 2),
}
PAIRS = ("pair_classification", "pair_regression", "sentence_pairs")
# Text that the models read in place of the usual one.
MARKED = {
    "masked": "the shape of a [MASK] .",
    "span_corruption": "the shape of <extra_id_0> .",
}
# Runs that are no kind's own.
OTHERS = ("without", "tiny", "tiny_causal", "tiny_seq2seq")
INPUTS = {
    "text": "the shape of a list",
    "second_text": "of a tensor",
    "context": "the quick brown fox jumps over the lazy dog",
    "question": "the fox",
}


def try_page(url: str, run: str, **state: str) -> str:
    """The address of the page Try with a run, and further parts of its state."""
    more = "".join(f"&{name}={quote(value)}" for name, value in state.items())
    return f"{url}#page=try&run={run}{more}"


def await_answer(page: Page, number: int = 1) -> None:
    selector = f"body[data-answered='{number}']"
    page.wait_for_selector(selector, timeout=PATIENCE)
    expect(page.locator("#error")).to_be_hidden()


def await_form(page: Page) -> None:
    page.wait_for_selector("#try-form:not([hidden])", timeout=PATIENCE)


def check_masks(browser: Browser, url: str) -> None:
    """Each mask has its pieces, one of which is seen in the text."""
    address = try_page(url, "tiny", **{"in.text": MASKED})
    with opened(browser, address, ready=False) as page:
        await_answer(page)
        expect(page.locator(".card")).to_have_count(2)
        expect(page.locator(".card").first.locator("li")).to_have_count(3)
        expect(page.locator(STATUS)).to_contain_text("Version 1 answered in")
        expect(page.locator("#try-facts")).to_contain_text("version 1")
        button = page.locator(".card").nth(1).locator("button").nth(2)
        piece = button.inner_text()
        button.click()
        fill = page.locator(f"{ANSWER} mark").nth(1)
        expect(fill).to_have_text(piece.removeprefix("##"))
        expect(button).to_be_focused()
        require_accessible(page)
        page.fill("#try-texts textarea", "nothing to fill")
        page.press("#try-texts textarea", "Control+Enter")
        await_answer(page, 2)
        expect(page.locator(ANSWER)).to_contain_text("write [MASK]")
        page.fill("#try-texts textarea", "a list " * 100)
        page.click("#try-ask")
        await_answer(page, 3)
        expect(page.locator(STATUS)).to_contain_text("was cut")


def check_vectors(browser: Browser, url: str) -> None:
    """Vectors of two texts are compared, and Inside does not get the second one."""
    address = try_page(url, "tiny", task="embedding")
    with opened(browser, address, ready=False) as page:
        await_answer(page)
        assert page.locator("#try-texts textarea").count() == 2
        expect(page.locator(ANSWER)).not_to_contain_text("Cosine")
        first = page.input_value("#try-texts textarea[name=text]")
        page.fill("#try-texts textarea[name=second_text]", first)
        page.click("#try-ask")
        await_answer(page, 2)
        expect(page.locator(".numbers > div").first).to_contain_text("Cosine")
        expect(page.locator(".numbers dd").first).to_have_text("1")
        page.get_by_role("link", name="Inside").click()
        page.wait_for_selector("body[data-ready]", timeout=PATIENCE)
        assert page.input_value("#texts textarea") == first


def check_writing(browser: Browser, url: str) -> None:
    """A text is written token by token, and each token has its alternatives."""
    with opened(browser, try_page(url, "tiny_causal"), ready=False) as page:
        await_form(page)
        expect(page.locator("#try-answer-panel")).to_be_hidden()
        page.fill("[name=max_new_tokens]", "6")
        page.click("#try-ask")
        await_answer(page)
        expect(page.locator(".token")).to_have_count(6)
        expect(page.locator(ANSWER)).to_contain_text("6 tokens · ended at the limit")
        expect(page.locator(".alternatives .bars li")).to_have_count(8)
        # Without a temperature the most probable token is taken.
        for place in range(6):
            page.locator(".token").nth(place).hover()
            chosen = page.locator(".alternatives .bars li").first
            expect(chosen).to_have_class("chosen")
        page.locator(".token").nth(5).focus()
        page.keyboard.press("ArrowLeft")
        expect(page.locator(".alternatives h3")).to_contain_text("Token 5 of 6")
        require_accessible(page)
        page.fill("[name=temperature]", "1.5")
        page.fill("[name=seed]", "7")
        page.click("#try-ask")
        await_answer(page, 2)
        written, link = page.locator(".token").all_inner_texts(), page.url
    # A link restores the settings, and the same seed the text.
    with opened(browser, link, ready=False) as page:
        await_form(page)
        assert page.input_value("[name=temperature]") == "1.5"
        page.click("#try-ask")
        await_answer(page)
        assert page.locator(".token").all_inner_texts() == written
        page.select_option("#try-task", "likelihood")
        await_answer(page, 2)
        expect(page.locator(ANSWER)).to_contain_text("Perplexity")


def check_token(browser: Browser, url: str) -> None:
    """With the server's token the page answers, and the copied program does so too."""
    address = try_page(url, "tiny", **{"in.text": MASKED})
    with opened(browser, address, ready=False, refused=(401,)) as page:
        expect(page.locator("#token-form")).to_be_visible()
        page.fill("#token", "secret")
        page.press("#token", "Enter")
        await_answer(page)
        expect(page.locator(".card")).to_have_count(2)
        assert "secret" not in page.url
        code = page.locator("#try-code")
        expect(code).to_contain_text('Authorization: Bearer $TOKEN"')
        expect(code).not_to_contain_text("secret")
        page.click("#try-tab-python")
        answers = page.locator(".card .label").all_inner_texts()
        done = subprocess.run(
            [os.environ["TRANSBEAM_CLIENT_PYTHON"], "-c", code.inner_text()],
            env={**os.environ, "TOKEN": "secret"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert all(repr(piece.encode()) in done.stdout for piece in answers)


def check_stop(browser: Browser, url: str) -> None:
    """Stop ends a text and keeps what is written of it."""
    with opened(browser, try_page(url, "tiny_causal"), ready=False) as page:
        await_form(page)
        expect(page.locator("#try-stop")).to_be_hidden()
        # The answer of a server that goes on writing, of which two tokens have come.
        page.evaluate(
            """() => {
              const send = window.fetch;
              const parts = ' a, list'.split(',').map((text) =>
                `data: ${JSON.stringify({ text, token_id: 5 })}\\n\\n`);
              window.fetch = async (address, options) => {
                if (!String(address).endsWith(':stream')) return send(address, options);
                const body = new ReadableStream({ start(controller) {
                  const encoder = new TextEncoder();
                  parts.forEach((part) => controller.enqueue(encoder.encode(part)));
                  options.signal.addEventListener('abort', () =>
                    controller.error(new DOMException('stopped', 'AbortError')));
                } });
                return new Response(body);
              };
            }"""
        )
        page.click("#try-ask")
        expect(page.locator(".token")).to_have_count(2)
        page.click("#try-stop")
        expect(page.locator(ANSWER)).to_contain_text("2 tokens · stopped by you")
        expect(page.locator(".token")).to_have_text([" a", " list"])
        expect(page.locator("#error")).to_be_hidden()
        expect(page.locator("#try-stop")).to_be_hidden()


def check_beams(browser: Browser, url: str) -> None:
    """An encoder-decoder writes with beams, and the best text has a score."""
    address = try_page(url, "tiny_seq2seq", task="search")
    with opened(browser, address, ready=False) as page:
        await_form(page)
        page.fill("[name=max_new_tokens]", "5")
        page.fill("[name=num_beams]", "2")
        page.click("#try-ask")
        await_answer(page)
        expect(page.locator(ANSWER)).to_contain_text("score -")
        expect(page.locator(".alternatives h3")).to_contain_text("Token 1 of")
        page.fill("[name=num_beams]", "99")
        page.click("#try-ask")
        assert page.locator("[name=num_beams]:invalid").count() == 1
        page.fill("[name=num_beams]", "")
        page.select_option("#try-task", "stream")
        page.click("#try-ask")
        await_answer(page, 2)
        expect(page.locator(".token").first).to_be_visible()


def check_forms(browser: Browser, url: str) -> None:
    """Answers of every form are shown, in both themes."""
    for scheme in ("light", "dark"):
        with opened(browser, try_page(url, "tiny"), ready=False, scheme=scheme) as page:
            await_answer(page)
            for form, outputs in OUTPUTS.items():
                texts = {
                    **TEXTS,
                    **({"text": "A <extra_id_0>."} if form == "gaps" else {}),
                }
                page.evaluate(
                    """async ([form, outputs, texts]) => {
                      const { ANSWER_VIEWS } = await import('./try/answer_views.js');
                      const shown = ANSWER_VIEWS[form](outputs, texts);
                      document.getElementById('try-answer').replaceChildren(...shown);
                    }""",
                    [form, outputs, texts],
                )
                for words in EXPECTED[form]:
                    expect(page.locator(ANSWER)).to_contain_text(words)
                require_accessible(page)


def check_real_answers(browser: Browser, url: str) -> None:
    """Real exports of all kinds answer, and their runs open on Inside."""
    with opened(browser, try_page(url, "without"), ready=False) as page:
        expect(page.locator("#try-notice")).to_be_visible()
        runs = page.locator("#run option").evaluate_all("all => all.map(x => x.value)")
    assert sorted(REAL) == sorted(set(runs) - set(OTHERS)), runs
    for run, (selector, number) in REAL.items():
        texts = {f"in.{name}": text for name, text in INPUTS.items()}
        if run not in PAIRS:
            del texts["in.second_text"]
        if run in MARKED:
            texts["in.text"] = MARKED[run]
        with opened(browser, try_page(url, run, **texts), ready=False) as page:
            if run == "image_classification":
                await_form(page)
                page.set_input_files("[name=image_bytes]", image_file())
                page.click("#try-ask")
            await_answer(page)
            expect(page.locator(STATUS)).to_contain_text("Version 1 answered in")
            found = page.locator(f"{ANSWER} {selector}")
            assert found.count() >= number, (run, page.inner_text(ANSWER))
            require_accessible(page)
            page.get_by_role("link", name="Inside").click()
            if run == "image_classification":
                expect(page.locator("#no-maps")).to_contain_text("images")
            else:
                page.wait_for_selector("body[data-ready]", timeout=PATIENCE)
            expect(page.locator("#error")).to_be_hidden()


def image_file(name: str = "a picture.png") -> dict:
    """A PNG of one gray pixel, as a file to choose."""
    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0\x80")), (b"IEND", b"")]
    content = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data))
        + kind
        + data
        + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return {"name": name, "mimeType": "image/png", "buffer": content}


def check_images(browser: Browser, url: str) -> None:
    """An image is chosen, shown and asked for; its request reads the file."""
    address = try_page(url, "image_classification")
    with (
        tempfile.TemporaryDirectory() as folder,
        opened(browser, address, ready=False) as page,
    ):
        await_form(page)
        expect(page.locator("#try-answer-panel")).to_be_hidden()
        page.click("#try-ask")  # the browser asks for a file
        assert page.evaluate(
            "!document.querySelector('[name=image_bytes]').validity.valid"
        )
        chosen = image_file()
        page.set_input_files("[name=image_bytes]", chosen)
        expect(page.locator(".chosen-image")).to_have_js_property("naturalWidth", 1)
        page.click("#try-ask")
        await_answer(page)
        label = page.inner_text(f"{ANSWER} .answer-big")
        require_accessible(page)
        Path(folder, chosen["name"]).write_bytes(chosen["buffer"])
        command = f"curl() {{ cat; }}\n{page.inner_text('#try-code')}"
        body = subprocess.run(
            ["bash", "-c", command], cwd=folder, capture_output=True, check=True
        ).stdout
        sent = json.loads(body)["inputs"]["image_bytes"][0]["b64"]
        assert base64.b64decode(sent) == chosen["buffer"]
        page.click("#try-tab-python")
        done = subprocess.run(
            [os.environ["TRANSBEAM_CLIENT_PYTHON"], "-c", page.inner_text("#try-code")],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert repr(label.encode()) in done.stdout, done.stdout
        # A name that a shell would read otherwise is not written into the command.
        page.set_input_files("[name=image_bytes]", image_file("a'; id #.png"))
        page.click("#try-tab-curl")
        expect(page.locator("#try-code")).to_contain_text("< 'image.png'")
    # The model refuses a file that is not an image.
    with opened(browser, address, ready=False, refused=(400,)) as page:
        await_form(page)
        broken = {"name": "b.png", "mimeType": "image/png", "buffer": b"no image"}
        page.set_input_files("[name=image_bytes]", broken)
        page.click("#try-ask")
        expect(page.locator("#error")).to_contain_text("image", timeout=PATIENCE)


def check_copied_requests(browser: Browser, url: str) -> None:
    """The copied command and program send the text as it is, whatever it has."""
    texts = (HOSTILE.replace("\0", ""), "it's [MASK]\n'END'\nEND\n\"$(id)`id`\\n\u2028")
    with opened(browser, try_page(url, "tiny"), ready=False) as page:
        await_answer(page)
        for text in texts:
            page.fill("#try-texts textarea", text)
            command = page.inner_text("#try-code")
            # The server is asked nothing: what the shell hands over is looked at.
            shell = "curl() { cat; }\n" + command
            body = subprocess.run(
                ["bash", "-c", shell], capture_output=True, check=True
            ).stdout
            sent = json.loads(body)["inputs"]["text"]
            assert sent == [page.input_value("#try-texts textarea")]
            page.click("#try-tab-python")
            names: dict = {}
            program = page.inner_text("#try-code")
            stub = "class connect:\n def __init__(*_): pass\n __enter__ = lambda s: s\n"
            stub += " __exit__ = lambda *_: None\n"
            stub += " def ask(self, name, inputs): return inputs\n"
            lines = [x for x in program.splitlines() if not x.startswith("from ")]
            exec(stub + "\n".join(lines), names)
            assert names["outputs"]["text"] == sent
            page.click("#try-tab-curl")
    # And once for real, by the interpreter that has the client.
    with opened(browser, try_page(url, "tiny"), ready=False) as page:
        await_answer(page)
        answers = page.locator(".card .label").all_inner_texts()
        page.click("#try-tab-python")
        program = page.inner_text("#try-code")
        done = subprocess.run(
            [os.environ["TRANSBEAM_CLIENT_PYTHON"], "-c", program],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert all(repr(piece.encode()) in done.stdout for piece in answers)


def check_hostile_answers(browser: Browser, url: str) -> None:
    """Markup in texts and answers stays text, and a megabyte is refused or cut."""
    address = try_page(url, "tiny", **{"in.text": f"{HOSTILE} [MASK]"})
    with opened(browser, address, ready=False) as page:
        await_answer(page)
        assert page.evaluate("window.hacked") is None
        assert page.locator(f"{ANSWER} img").count() == 0
        page.evaluate(
            "document.querySelector('#try-texts textarea').value ="
            "'[MASK] list '.repeat(9e4)"
        )
        page.click("#try-ask")
        await_answer(page, 2)
        expect(page.locator(STATUS)).to_contain_text("was cut")
        assert len(page.inner_text("#try-code")) < 30_000
        assert len(page.url) < 10_000
    # Pictures replace characters that an SVG may not have.
    with opened(browser, try_page(url, "tiny"), ready=False) as page:
        await_answer(page)
        page.fill("#try-texts textarea", f"{HOSTILE} \x01\ufffe [MASK]")
        page.click("#try-ask")
        await_answer(page, 2)
        for kind, start in (("png", b"\x89PNG"), ("svg", b"<svg")):
            with page.expect_download() as found:
                page.click(f"#try-answer-panel [data-kind={kind}]")
            content = Path(found.value.path()).read_bytes()
            assert content.startswith(start)
        ElementTree.fromstring(content)


def check_no_export(browser: Browser, url: str) -> None:
    """A run without an export has the command that makes one."""
    with opened(browser, try_page(url, "without"), ready=False) as page:
        expect(page.locator("#try-notice")).to_contain_text("transbeam export")
        expect(page.locator("#try-form")).to_be_hidden()
        require_accessible(page)
        page.select_option("#run", "tiny")
        await_answer(page)
        expect(page.locator("#try-notice")).to_be_hidden()


def check_try_widths(browser: Browser, url: str) -> None:
    """Nothing is wider than the window."""
    for width in (360, 1280, 2560):
        with opened(
            browser, try_page(url, "tiny_causal"), ready=False, width=width
        ) as page:
            await_form(page)
            page.fill("[name=max_new_tokens]", "20")
            page.click("#try-ask")
            await_answer(page)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, (width, wide)


if __name__ == "__main__":
    run_checks(globals())
