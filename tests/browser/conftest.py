"""Chromium for the tests of this folder; where the machine has none they are skipped, but not in CI."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.webdriver import Browser, chromium

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def browser() -> Iterator[Browser]:
    """A browser with an empty profile."""
    driver, binary = shutil.which("chromedriver"), shutil.which("chromium")
    if not (driver and binary):
        what = "chromium and chromedriver are needed (Debian: chromium, chromium-driver)"
        if os.environ.get("CI"):
            pytest.fail(what)
        pytest.skip(what)
    with chromium(driver=driver, binary=binary) as one:
        yield one


@pytest.fixture(autouse=True)
def _quick_logins(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
