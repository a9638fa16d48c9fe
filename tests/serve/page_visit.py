"""What tests of the live page share: a server in a process of its own, and an open page that is listened to."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import preloaded

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
]
SCREENS = {"desktop": (1440, 900), "phone": (390, 844), "narrow": (360, 740)}
PATIENCE = 120  # seconds until a server that does not answer counts as broken

# How many different colours a canvas shows; 1 is a blank.
COLOURS = """place => {
  const canvas = document.querySelector(place + " canvas");
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return new Set(new Uint32Array(pixels.buffer)).size;
}"""

# Text whose contrast with what lies behind it is under 4.5 (WCAG AA), as [ratio, text].
FAINT = """() => {
  const dot = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const pen = dot.getContext("2d", { willReadFrequently: true });
  const read = (colour, under) => {
    pen.clearRect(0, 0, 1, 1);
    if (under) { pen.fillStyle = `rgb(${under})`; pen.fillRect(0, 0, 1, 1); }
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const behind = (node) => {
    const chain = [];
    for (let n = node; n; n = n.parentElement) chain.unshift(getComputedStyle(n).backgroundColor);
    return chain.reduce((under, colour) => read(colour, under), [255, 255, 255]);
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const faint = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || !node.checkVisibility() || node.closest("script, option, .unseen")) continue;
    const under = behind(node);
    const [a, b] = [light(read(getComputedStyle(node).color, under)), light(under)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) faint.push([Number(ratio.toFixed(2)), walk.currentNode.textContent.trim().slice(0, 40)]);
  }
  return faint;
}"""


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health").status_code == 200
    except httpx.TransportError:
        return False


class Server:
    """A service in a process of its own, on a virtual clock, and what tests ask it beside the page."""

    def __init__(self, folder: Path, machines: int) -> None:
        cluster = folder / "cluster.json"
        kind = {"name": "m", "count": machines, "capacity": {"gpu": 8, "cpu": 64, "memory": "512Gi"}}
        cluster.write_text(json.dumps({"machines": [kind]}), encoding="utf-8")
        self.words = (
            "serve",
            "--clock",
            "virtual",
            "--rate",
            "0",
            "--log-json",
            "--store",
            f"sqlite:///{folder / 'store.db'}",
            "--cluster",
            str(cluster),
        )
        self.folder = folder
        self.begin(port=0)
        self.http = httpx.Client(base_url=self.url, timeout=PATIENCE)

    def begin(self, port: int) -> None:
        """On a port, or on any free one; again on its own after `end` it serves the same store."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("EQUIPOISE_")}
        log = self.folder / "log"
        with log.open("wb") as output:
            self.process = preloaded.start((*self.words, "--port", str(port)), self.folder, output, output, env)
        try:
            self.url = self._url(log)
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE)

    def _url(self, log: Path) -> str:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            for line in log.read_text(encoding="utf-8").splitlines():
                if '"url"' in line and line.endswith("}") and answers(url := str(json.loads(line)["url"]).rstrip("/")):
                    return url
            assert self.process.poll() is None, log.read_text(encoding="utf-8")
            time.sleep(0.1)
        raise AssertionError(f"no server after {PATIENCE} s: {log.read_text(encoding='utf-8')}")

    def get(self, path: str) -> Any:
        return self.http.get(path).raise_for_status().json()

    def submit(self, name: str, workers: int = 2, hours: int = 1, **more: Any) -> dict[str, Any]:
        job = {"name": name, "worker": {"gpu": 1}, "workers": workers, "duration": f"{hours}h", "value": 10, **more}
        return dict(self.http.post("/v1/jobs", json=job).raise_for_status().json())

    def named(self, name: str) -> list[dict[str, Any]]:
        return [job for job in self.get("/v1/jobs?limit=200")["jobs"] if job["name"] == name]


class Visit:
    """An open page: what it complained of and what it asked for is listened to from the first byte."""

    def __init__(self, browser: Any, server: Server, screen: str = "desktop", scheme: str = "light") -> None:
        width, height = SCREENS[screen]
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
        )
        self.page = self.context.new_page()
        self.server = server
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, ready: bool = True) -> Any:
        self.page.goto(self.server.url, wait_until="domcontentloaded")
        if ready:
            self.page.wait_for_selector("#connection.live")
            self.page.wait_for_selector("#tiles dt")
            self.page.wait_for_function("() => equipoise.gantt.bars().length > 0")
        return self.page

    def bars(self, **like: str) -> list[dict[str, Any]]:
        told = self.page.evaluate("equipoise.gantt.bars()")
        return [bar for bar in told if all(bar[key] == value for key, value in like.items())]

    def wait_for_bars_of(self, name: str) -> list[dict[str, Any]]:
        self.page.wait_for_function("name => equipoise.gantt.bars().some((bar) => bar.name === name)", arg=name)
        return self.bars(name=name)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)


def fill(server: Server, jobs: int, hands: int = 8) -> None:
    """So many jobs that fit no machine: they are decided fast."""
    netloc = urlsplit(server.url).netloc

    def some(hand: int) -> None:
        line = http.client.HTTPConnection(netloc, timeout=PATIENCE)
        for k in range(hand, jobs, hands):
            job = {"name": f"too-wide-{k}", "worker": {"gpu": 9}, "workers": 1, "duration": "1h", "value": 1}
            line.request("POST", "/v1/jobs", json.dumps(job), {"Content-Type": "application/json"})
            answer = line.getresponse()
            assert (answer.status, bool(answer.read())) == (201, True)

    with ThreadPoolExecutor(hands) as pool:
        list(pool.map(some, range(hands)))
