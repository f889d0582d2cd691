"""The drawing of layers: what each has, and that a click hides it."""

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from openmxu.cells.lef import LefCell
from openmxu_layout.drawing.layers import draw_layers

from ...conftest import ran, slow
from ..conftest import IHP
from .small_layout import small


def _drawn() -> str:
    return draw_layers(small(), IHP, {"inv": LefCell(1440, 3780)})


def test_layers() -> None:
    """The cell with a pin, the wires, both vias, the strap; y points up."""
    root = ElementTree.fromstring(_drawn())
    name = "{http://www.w3.org/2000/svg}"
    assert {each.get("id"): each[0].get("d") for each in root.iter(f"{name}g") if each.get("id")} == {
        "cells": "M96 0h144v378h-144z",
        "Metal2": "M144 0v84",
        "Metal3": "M96 84h48",
        "Metal4": "",
        "Metal5": "",
        "vias": "M144 42h0M144 84h0",
        "TopMetal1": "M50 -63h380v882h-380z",
    }
    assert [each.text for each in root.iter(f"{name}text")][:3] == ["cells", "Metal2", "Metal3"]
    [flip] = [each.get("transform") for each in root.iter(f"{name}g") if each.get("transform")]
    assert flip == "translate(0,756) scale(1,-1)"


@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
@pytest.mark.parametrize("clicks", [slow(1), slow(2)])
def test_a_click_hides(tmp_path: Path, clicks: int) -> None:
    click = "document.querySelectorAll('text')[1].dispatchEvent(new MouseEvent('click'));" * clicks
    look = "document.querySelector('title').textContent = getComputedStyle(document.getElementById('Metal2')).display;"
    path = tmp_path / "layers.svg"
    path.write_text(_drawn().replace("</script>", f"{click}{look}</script>"))
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", path.as_uri()]
    done = ran(command, timeout=120, check=True)
    assert re.search(r"<title>(\w+)</title>", done.stdout)[1] == ("none" if clicks % 2 else "inline")  # type: ignore[index]
