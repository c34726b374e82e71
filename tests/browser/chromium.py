"""The Chromium of this machine, driven headless. Without one, everything here is left out, and says so."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

WAIT_MS = 60_000
"""How long an expectation may take to come true: far longer than it does."""


class BrowserIsMissingError(Exception):
    """There is no Chromium here."""


def find_chromium() -> str:
    """Where it is: `CHROMIUM`, or the first of the usual names."""
    named = os.environ.get("CHROMIUM")
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise BrowserIsMissingError(
            f"there is no {named or ' or '.join(NAMES)} on the PATH: install Debian's package chromium, or name one with CHROMIUM"
        )
    return found


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """One browser; each test opens contexts of its own in it."""
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses its sandbox to root
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=find_chromium(), args=[*as_root, "--disable-gpu", "--disable-dev-shm-usage"]
        )
        try:
            yield browser
        finally:
            await browser.close()


def listen(page: Page) -> list[str]:
    """What the page complains about from now on: scripts that failed, and what the policy refused. Answers like 404 are no complaint."""
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith("Failed to load resource: the server responded"):
            complaints.append(f"{page.url}: {message.text}")

    page.on("pageerror", lambda error: complaints.append(f"{page.url}: {error}"))
    page.on("console", note)
    return complaints
