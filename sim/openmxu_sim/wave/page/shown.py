"""Run a product as a page does, and show it in a notebook."""

from html import escape

from openmxu_sim.wave.page.document import live_page
from openmxu_sim.wave.page.machine import Given, Record, record
from openmxu_sim.wave.page.wasm import has_zig


class _Shown(Record):
    """A record that notebooks show."""

    def _repr_html_(self) -> str:
        """Return the page, live where it can be."""
        page = escape(live_page(self, live=has_zig()))
        return f'<iframe srcdoc="{page}" title="The unit" style="width:100%;height:860px;border:0"></iframe>'


def record_run(given: Given) -> Record:
    """Run a product as a page does, on this machine."""
    seen = record(given)
    return _Shown(given, seen.tiles, seen.frames, seen.cycles)
