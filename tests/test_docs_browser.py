"""How pages of the documentation look in a browser: a small site with their theme and their style sheet."""

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread, imsave

pytestmark = pytest.mark.slow

CONFIG = f"""
extensions = ["myst_parser"]
html_theme = "furo"
html_static_path = [{str(Path(__file__).parent.parent / "docs/_static")!r}]
html_css_files = ["columns.css"]
"""

TABLE = """
| bf16 = 1 | fp16 | fp32 | tf32 | fp8_e5m2 | fp8_e4m3 | bf16 |
|---|---:|---:|---:|---:|---:|---:|
| area, product | 1.92 to 2.04 ± 0.03 | 9.61 to 10.39 ± 0.25 | 2 | 0.20 to 0.30 | 0.26 to 0.36 | 385 to 430 GE |
"""

PLAIN = f"""# A page

## A section

{TABLE}

```none
{"0123456789 " * 11}
```

![A plot](plot.svg)

![A layout](layout.png)

![One that adapts](wavefront.svg)
"""

LIVE = f"""---
hide-toc: true
---

# The live page

```{{raw}} html
<iframe srcdoc="x"></iframe>
```

{"Words " * 60}

## A section

{TABLE}
"""

PLOT = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 90" width="900" height="90">
<rect width="900" height="90" fill="#fff"/>
<rect x="300" width="300" height="90" fill="#0072b2"/>
<rect x="600" width="300" height="90"/>
</svg>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source, built = tmp_path_factory.mktemp("docs"), tmp_path_factory.mktemp("html")
    files = {"conf.py": CONFIG, "index.md": PLAIN + "\n```{toctree}\nlive\n```\n", "live.md": LIVE}
    for name, text in (files | {"plot.svg": PLOT, "wavefront.svg": PLOT}).items():
        (source / name).write_text(text, encoding="utf-8")
    thirds = np.array([[1, 1, 1], [0, 0.45, 0.7], [0, 0, 0]])  # as in the plot
    imsave(source / "layout.png", np.tile(np.repeat(thirds, 300, axis=0), (90, 1, 1)))
    subprocess.run([sys.executable, "-m", "sphinx", "-W", "-q", source, built], check=True)
    return built


@pytest.mark.parametrize("name", ["index", "live"])
def test_no_page_scrolls_sideways(name: str, browser: Any, site: Path) -> None:
    beyond = {}
    with browser.new_page() as page:
        page.goto((site / f"{name}.html").as_uri())
        for width in range(320, 2000, 20):
            page.set_viewport_size({"width": width, "height": 800})
            beyond[width] = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert {width: size for width, size in beyond.items() if size > 0} == {}


def test_live_page_has_room(browser: Any, site: Path) -> None:
    """Within a page it is as wide as where its three columns stand side by side, and Play is in the window."""
    with browser.new_page(viewport={"width": 1366, "height": 768}) as page:
        page.goto((site / "live.html").as_uri())
        box = page.locator("iframe").bounding_box()
    assert box["width"] > 1020
    assert box["y"] + box["height"] < 768


@pytest.mark.parametrize(("scheme", "theme"), [("light", ""), ("dark", ""), ("light", "dark"), ("dark", "light")])
def test_plots_in_the_dark(scheme: str, theme: str, browser: Any, site: Path) -> None:
    """White becomes the page's ground, black light, and blue stays blue; an image that adapts is left alone."""
    with browser.new_page(color_scheme=scheme, viewport={"width": 1400, "height": 900}) as page:
        page.add_init_script(f"localStorage.theme = {theme or 'auto'!r}")
        page.goto((site / "index.html").as_uri())
        images = [page.locator(f"img[src*={name}]").screenshot() for name in ("plot", "layout", "wavefront")]
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    *drawn, own = (imread(io.BytesIO(image))[:, :, :3] for image in images)
    is_dark = (theme or scheme) == "dark"
    rgb = np.array([int(part) for part in ground.strip("rgb()").split(",")]) / 255
    for image in drawn:
        height, width = image.shape[:2]
        white, blue, black = (image[height // 2, width * sixth // 6] for sixth in (1, 3, 5))
        assert abs(white - rgb).max() < 0.02
        assert black.min() > 0.9 if is_dark else black.max() == 0
        assert blue[2] > blue[1] > blue[0]
    assert (own[own.shape[0] // 2, own.shape[1] // 6] == 1).all()


def test_figures_on_a_phone(browser: Any, site: Path) -> None:
    """A range with its error takes a line, and stands at the right like other figures."""
    with browser.new_page(viewport={"width": 390, "height": 844}) as page:
        page.goto((site / "index.html").as_uri())
        for words in ("1.92 to 2.04 ± 0.03", "385 to 430 GE", "2"):
            cell = page.locator("td.text-right").filter(has_text=words).first
            lines, gap = cell.evaluate("""cell => {
              const [box] = cell.querySelector("p").getClientRects();
              const style = getComputedStyle(cell);
              return [box.height / parseFloat(getComputedStyle(cell.firstChild).lineHeight),
                      cell.getBoundingClientRect().right - parseFloat(style.paddingRight) - box.right];
            }""")
            assert lines == pytest.approx(1, abs=0.2), words
            assert gap < 6, words  # margin and border
