"""Pages in a browser."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openmxu_sim.wave import has_zig

needs_zig = pytest.mark.skipif(not has_zig(), reason="the package ziglang is not installed: make live installs it")


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens a page in the browser; at the end it must have complained of nothing, and asked nobody for anything."""
    complaints: list[str] = []
    contexts = []

    def opened(content: str, script: str = "", width: int = 1280, height: int = 860, **options: Any) -> Any:
        contexts.append(browser.new_context(viewport={"width": width, "height": height}, **options))
        page = contexts[-1].new_page()
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: request.url.startswith("file:") or complaints.append(request.url))
        page.add_init_script(script)
        (tmp_path / "run.html").write_text(content)
        page.goto((tmp_path / "run.html").as_uri())
        page.wait_for_selector("body[data-state=ready]")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not complaints
