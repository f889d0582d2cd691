"""Netlists, cell by cell."""

from collections.abc import Iterable
from typing import Any


class Netlist:
    """A netlist with whatever cells it gets; buffers of inputs and of outputs have a kind and a port."""

    def __init__(self, input_buffer: tuple[str, str], output_buffer: tuple[str, str], places: Iterable[str]) -> None:
        self._buffers = (input_buffer, output_buffer)
        self._nets = 0
        self._places = iter(places)
        self.cells: dict[str, Any] = {}

    def net(self) -> int:
        """One that nothing is connected to yet."""
        self._nets += 1
        return self._nets

    def add(self, kind: str, parameters: dict[str, str] | None = None, /, **ports: int | list[int]) -> dict[str, Any]:
        """A cell; a list is a bus."""
        connections = {port: nets if isinstance(nets, list) else [nets] for port, nets in ports.items()}
        cell = {"type": kind, "parameters": dict(parameters or {}), "attributes": {}, "connections": connections}
        self.cells[f"c{len(self.cells)}"] = cell
        return cell

    def pin(self, kind: str, place: str, /, **ports: int) -> None:
        """A cell of a pin."""
        self.add(kind, **ports)["attributes"]["NEXTPNR_BEL"] = place

    def input(self) -> int:
        """The net of the next free pin."""
        return self._buffer(0)

    def output(self) -> int:
        """A net that the next free pin shows."""
        return self._buffer(1)

    def _buffer(self, direction: int) -> int:
        kind, port = self._buffers[direction]
        net = self.net()
        self.pin(kind, next(self._places), **{port: net})
        return net
