"""ONNX models with the bits of the unit.

::

    from openmxu_sim.onnx import Network

    network = Network("model.onnx", operand="fp8_e4m3")
    outputs = network.run({"image": image})

The model is run operator by operator; the unit computes the products of ``MatMul``, ``Gemm``, ``Conv``,
``ConvTranspose``, ``LSTM``, ``GRU``, ``RNN``, ``Einsum`` and ``Attention``, and onnxruntime the rest. Results leave the
unit in fp32 and are rounded to the type of the operands.
"""

from openmxu_sim.networks.numerics import EscapeError
from openmxu_sim.onnx.network import Network

__all__ = ["EscapeError", "Network"]
