"""A real Chromium behind chromedriver, spoken to in W3C WebDriver over HTTP: what these tests need of it.

Guarantees: one chromedriver on a port of its own choosing and one browser with an empty profile, both
ended with the context; elements are named by CSS selectors and waited for. Talks to this machine only.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests

if TYPE_CHECKING:
    from collections.abc import Iterator

ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--window-size=1400,1000",
)  # fmt: skip
WAIT_MS = 20_000
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""The key of an element's reference, fixed by the standard."""


class Browser:
    """One page at a time."""

    def __init__(self, session: requests.Session, address: str) -> None:
        self._http = session
        self._address = address

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        response = self._http.request(method, f"{self._address}{path}", json=body, timeout=60)
        value = response.json()["value"]
        assert response.ok, f"{method} {path}: {value.get('error')}: {value.get('message')}"
        return value

    def open(self, url: str) -> None:
        """Load a page and wait for it."""
        self._ask("POST", "/url", {"url": url})

    @property
    def url(self) -> str:
        """Of the page that is shown."""
        return str(self._ask("GET", "/url"))

    @property
    def text(self) -> str:
        """What a person can read on the page."""
        return str(self._ask("GET", f"/element/{self._find('body')}/text"))

    def _find(self, css: str) -> str:
        found = self._ask("POST", "/element", {"using": "css selector", "value": css})
        return str(found[ELEMENT])

    def click(self, css: str) -> None:
        """Press what *css* names first, a link or a button, and wait for the page that it leads to."""
        before = self._find("html")
        self._ask("POST", f"/element/{self._find(css)}/click", {})
        for _ in range(WAIT_MS // 50):
            if self._is_gone(before) and self._script("return document.readyState") == "complete":
                return
            time.sleep(0.05)
        raise AssertionError(f"{css} led nowhere from {self.url}")

    def _is_gone(self, element: str) -> bool:
        """Whether the page of *element* is no longer shown; the driver may answer before it is not."""
        response = self._http.get(f"{self._address}/element/{element}/name", timeout=60)
        return not response.ok

    def _script(self, code: str) -> Any:
        return self._ask("POST", "/execute/sync", {"script": code, "args": []})

    def type(self, css: str, text: str) -> None:
        """Type into a field."""
        self._ask("POST", f"/element/{self._find(css)}/value", {"text": text})

    def has(self, css: str) -> bool:
        """Whether the page has such an element; does not wait."""
        self._ask("POST", "/timeouts", {"implicit": 0})
        found = self._ask("POST", "/elements", {"using": "css selector", "value": css})
        self._ask("POST", "/timeouts", {"implicit": WAIT_MS})
        return bool(found)

    def complaints(self) -> list[str]:
        """What the browser's console has said since it was asked last, from warnings on.

        That a site has no icon is none: Chromium asks for one by itself.
        """
        entries = self._ask("POST", "/se/log", {"type": "browser"})
        said = [entry["message"] for entry in entries if entry["level"] in {"WARNING", "SEVERE"}]
        return [message for message in said if "/favicon.ico " not in message]


@contextmanager
def chromium(*, driver: str, binary: str) -> Iterator[Browser]:
    """A browser, started and ended here."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "driver.log"
        with log.open("wb") as out:
            process = subprocess.Popen([driver, "--port=0"], stdout=out, stderr=out)
        try:
            base = f"http://127.0.0.1:{_port(process, log)}"
            session = requests.Session()
            session.trust_env = False
            with session:
                yield from _session(session, base, binary, folder)
        finally:
            process.terminate()
            process.wait(timeout=30)


def _session(session: requests.Session, base: str, binary: str, folder: str) -> Iterator[Browser]:
    options = {"binary": binary, "args": [*ARGUMENTS, f"--user-data-dir={folder}/profile"]}
    wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"},
              "timeouts": {"implicit": WAIT_MS}}  # fmt: skip
    response = session.post(
        f"{base}/session", json={"capabilities": {"alwaysMatch": wanted}}, timeout=90
    )
    assert response.ok, response.text
    address = f"{base}/session/{response.json()['value']['sessionId']}"
    try:
        yield Browser(session, address)
    finally:
        session.delete(address, timeout=60)


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    """The port that chromedriver has chosen, once it says so."""
    for _ in range(300):
        if found := re.search(r"started successfully on port (\d+)", log.read_text("utf-8")):
            return int(found[1])
        try:
            process.wait(timeout=0.1)
        except subprocess.TimeoutExpired:
            continue
        break
    raise AssertionError(f"chromedriver did not start: {log.read_text('utf-8')}")
