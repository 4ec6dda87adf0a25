"""The status pages over real sockets, and in a real browser where there is one."""

from __future__ import annotations

import http.client
import shutil
from pathlib import Path

import pytest

from discovery.kit.page import HEADERS
from tests.service.supervised import STATIC, serving

CHROMIUM = shutil.which("chromium")
SETTINGS = STATIC | {"models": [{"id": "<script>alert(1)</script>"}]}


def test_the_page_and_its_headers(tmp_path: Path) -> None:
    with serving(tmp_path, SETTINGS) as ingress:
        ingress.ready()
        connection = http.client.HTTPConnection("127.0.0.1", ingress.admin, timeout=10)
        connection.request("GET", "/status")
        answer = connection.getresponse()
        page = answer.read().decode()
        connection.close()
        assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert "<script" not in page
        assert ingress.ask("/status?refresh=5")[0] == 200
        assert ingress.ask("/status?refresh=0")[0] == 400
        assert ingress.ask("/status?refresh=x")[0] == 400
        assert ingress.ask("/decisions/none")[0] == 404


@pytest.mark.skipif(CHROMIUM is None, reason="*** no chromium: the pages were not looked at in a browser")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1600])
def test_in_a_browser(tmp_path: Path, scheme: str, width: int) -> None:
    """One request, no word of the console, nothing wider than the window; a picture is left in the test's folder."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="*** no playwright")
    with serving(tmp_path, SETTINGS) as ingress, sync_api.sync_playwright() as browsers:
        ingress.ready()
        browser = browsers.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
            page = context.new_page()
            asked: list[str] = []
            said: list[str] = []
            page.on("request", lambda request: asked.append(request.url))
            page.on("console", lambda message: said.append(message.text))
            page.goto(f"http://127.0.0.1:{ingress.admin}/status")
            page.screenshot(path=tmp_path / "status.png", full_page=True)
            assert (len(asked), said) == (1, [])
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            background = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (max(map(int, background[4:-1].split(","))) < 128) == (scheme == "dark")
        finally:
            browser.close()
