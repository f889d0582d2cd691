"""How many cycles a second a page shows, in Chromium: ``python tests/openmxu_sim/wave/page_speed.py run.html``.

Each step draws the next cycle and waits for the browser's next frame, of which there are 60 a second at most.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

_MEASURE = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  const { transport } = openmxu.page;
  const spent = [];
  const start = performance.now();
  for (let step = 0; step < 300; step++) {
    const before = performance.now();
    transport.set(step % transport.count, true);
    spent.push(performance.now() - before);
    await frame();
  }
  const seconds = (performance.now() - start) / 1000;
  return [300 / seconds, spent.reduce((sum, each) => sum + each) / 300];
}"""


def main(page: str) -> None:
    """Print what was measured."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for width, height, scale in ((1280, 860, 1), (1280, 860, 2), (390, 844, 3)):
            tab = browser.new_page(viewport={"width": width, "height": height}, device_scale_factor=scale)
            tab.goto(Path(page).absolute().as_uri())
            tab.wait_for_selector("body[data-state=ready]")
            steps, spent = tab.evaluate(_MEASURE)
            print(f"{width}x{height}, scale {scale}: {steps:.0f} steps a second, {spent:.1f} ms of script for each")
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
