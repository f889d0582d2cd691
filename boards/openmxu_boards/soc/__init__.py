"""The demo system: a unit that a host feeds through a UART, or through another carrier of bytes.

=====================  ==============================================================================
:class:`UartSoc`       the system at two pins
:class:`Soc`           the system behind two streams of bytes
:class:`Buffers`       sizes of its memories
=====================  ==============================================================================

:mod:`openmxu_boards.protocol` defines the bytes on the wire.
"""

from openmxu_boards.soc.machine import Buffers
from openmxu_boards.soc.system import Soc, UartSoc

__all__ = ["Buffers", "Soc", "UartSoc"]
