"""How soon the dashboard answers: a slider moved at a million rows, and a cold start.

A rerun should stay under half a second on every page, whatever is still being worked out beside
it; the first page should be usable five seconds after somebody opens it on a fresh server.
"""

from __future__ import annotations

import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from playwright.sync_api import sync_playwright
from streamlit.testing.v1 import AppTest

from privgmm.dashboard.frame import PAGES

ROOT = Path(__file__).resolve().parent.parent
REPEATS = 6


def moved(app: AppTest, step: int) -> str | None:
    """Move a slider of the page to another stop; gives its label, None if there is none."""
    for control in sorted(app.select_slider, key=lambda control: control.key != "epsilon"):
        if not isinstance(control.value, float | int):
            continue
        # what is shown are words; what is set must have the type of what is there
        stop = control.options[step % len(control.options)].replace(",", "")
        if stop.replace(".", "").isdigit():
            control.set_value(type(control.value)(float(stop)))
            return str(control.label)
    for slider in app.slider:
        if isinstance(slider.min, float | int) and isinstance(slider.max, float | int):
            value = slider.min + (1 + step % 5) / 6 * (slider.max - slider.min)
            slider.set_value(type(slider.min)(value))
            return str(slider.label)
    return None


def reruns() -> None:
    for page in PAGES:
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=300)
        app.query_params["n"] = "1,000,000"
        app.run()
        if page.path != "app.py":
            app.switch_page(page.path).run()
        times = []
        for step in range(REPEATS):
            label = moved(app, step)
            if label is None:
                break
            start = time.perf_counter()
            app.run()
            times.append(time.perf_counter() - start)
        if times:
            print(
                f"{page.label:>14}: {label!r} moved, rerun {statistics.median(times):.2f} s in the "
                f"median, {max(times):.2f} s at worst of {len(times)}"
            )
        else:
            print(f"{page.label:>14}: no slider")


def cold_start() -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        print("cold start: no browser (Debian's package `chromium`)")
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    born = time.perf_counter()
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "privgmm.dashboard.launch", "--server.headless", "true"),
            *("--server.address", "127.0.0.1", "--server.port", str(port)),
        ],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(f"http://127.0.0.1:{port}/_stcore/health")
        print(f"cold start: the server answers after {time.perf_counter() - born:.1f} s")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"]
            )
            page = browser.new_page()
            start = time.perf_counter()
            page.goto(f"http://127.0.0.1:{port}")
            button = page.get_by_role("button", name="Release", exact=True)
            button.wait_for(timeout=120_000)
            print(f"cold start: Release can be pressed after {time.perf_counter() - start:.1f} s")
            page.wait_for_selector(".main-svg", timeout=120_000)
            print(f"cold start: the picture is there after {time.perf_counter() - start:.1f} s")
            browser.close()
    finally:
        server.terminate()
        server.wait(timeout=30)


def _wait_for(url: str) -> None:
    for _ in range(300):
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(f"the app did not answer within a minute at {url}")


def main() -> None:
    cold_start()
    reruns()


if __name__ == "__main__":
    main()
