"""What tests of pages in a real browser share: where it is, its screens, and how a page is opened and listened to."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NEEDS_A_BROWSER = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: no browser test")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
]
SCREENS = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}

# How many different colours a chart shows; 1 is a blank.
COLOURS = """place => {
  const canvas = place.querySelector("canvas");
  const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  return new Set(pixels).size;
}"""


def visit(browser: Any, path: Path, screen: str = "desktop", scheme: str = "light") -> tuple[Any, list[str], list[str]]:
    """The open page, what it complained of, and what it asked for."""
    page = browser.new_page(viewport=SCREENS[screen], color_scheme=scheme)
    complaints: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri(), wait_until="domcontentloaded")
    page.wait_for_function("() => document.querySelectorAll('[data-chart] canvas').length > 0")
    return page, complaints, asked
