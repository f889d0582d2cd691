"""The demo system: a unit that a host feeds through a UART, or whatever else carries bytes.

=====================  ==============================================================================
:class:`UartSoc`       the whole of it at two pins
:class:`Soc`           the same behind two streams of bytes
:class:`Buffers`       sizes of its memories
=====================  ==============================================================================

:mod:`openmxu_boards.protocol` says what goes over the wire.
"""

from openmxu_boards.soc.machine import Buffers
from openmxu_boards.soc.system import Soc, UartSoc

__all__ = ["Buffers", "Soc", "UartSoc"]
