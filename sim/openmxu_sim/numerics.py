"""What the bits of a product depend on, and what is said where a framework would compute it elsewhere."""

from typing import NamedTuple

from openmxu.passes import find_precision
from openmxu_sim import golden
from openmxu_sim.golden.arithmetic import check_subnormals
from openmxu_sim.golden.matrix import check_precision

__all__ = ["EscapeError", "Numerics"]


class EscapeError(RuntimeError):
    """A product would be computed elsewhere than on the unit."""


class Numerics(NamedTuple):
    """What the bits of a product depend on; each is as of :func:`openmxu_sim.simulate`."""

    operand: str = "bf16"
    accumulate: str = "fp32"
    precision: str = "default"
    subnormals: str = "flush"
    rows: int = 128

    def checked(self) -> "Numerics":
        """The same, with the name that we have for the precision.

        Raises
        ------
        TypeError, ValueError
            One is outside its domain.
        """
        golden.find_format(self.operand, "operand")
        golden.find_format(self.accumulate, "accumulate")
        precision = find_precision(self.precision)
        check_precision(precision, self.operand, self.accumulate)
        check_subnormals(self.subnormals)
        return self._replace(precision=precision, rows=golden.check_count(self.rows, "rows"))
