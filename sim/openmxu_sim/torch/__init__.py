"""PyTorch with the bits of the unit.

::

    import openmxu_sim.torch as mxu

    with mxu.unit(operand="bf16") as unit:
        loss = model(inputs).square().mean()
        loss.backward()

In the context, the unit computes every product of matrices, forward and backward: of ``mm``, ``addmm``, ``bmm``,
``baddbmm``, ``addbmm``, ``mv``, ``addmv``, ``dot``, ``vdot``, ``grouped_mm``, ``scaled_mm``, ``_int_mm``, of all
convolutions, and of what PyTorch makes of these: ``@``, ``einsum``, attention, recurrent layers, mixtures of experts.
Results leave the unit in fp32; PyTorch does what follows, such as adding a bias or rounding to a tensor's type.
Parameters, optimizers and checkpoints do not change.

A computation written element by element, ``(a * b).sum()``, is no product of matrices here, as on a TPU. A context
belongs to the thread that entered it; a network that another thread runs meanwhile is an error.
"""

from openmxu_sim.networks.numerics import EscapeError, Work
from openmxu_sim.torch.matmul import matmul
from openmxu_sim.torch.unit import Unit

__all__ = ["EscapeError", "Unit", "Work", "matmul", "unit"]

unit = Unit
