"""Programs that tests of frameworks run in a process of their own, and operands."""

import math
import os
import sys

import numpy as np

from openmxu_sim import golden
from openmxu_sim.operands import vectors

from ...conftest import ran


def run_python(*arguments: object, timeout: int = 300, **environment: str) -> str:
    """What Python prints with these arguments; if it fails, the end of its errors is the reason."""
    done = ran([sys.executable, *arguments], timeout=timeout, env=os.environ | environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def patterns(*shape: int, seed: int) -> np.ndarray:
    """Operands in fp32 of every sort, subnormal numbers among them."""
    return golden.from_bits(vectors.operands("fp32", math.prod(shape), seed)).reshape(shape)
