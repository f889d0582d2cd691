"""The host's side: a board as one of the engines that multiply matrices.

===================  ==================================================================================
:class:`Host`        a board: its identity, its counters, products on it
:func:`connect`      the board on a port, or the one on whichever port has one
:class:`BoardError`  the board does not answer, or refuses
===================  ==================================================================================
"""

from openmxu_boards.host.host import Host, connect
from openmxu_boards.host.link import BAUD, Link, SerialLink
from openmxu_boards.host.session import BoardError

__all__ = ["BAUD", "BoardError", "Host", "Link", "SerialLink", "connect"]
