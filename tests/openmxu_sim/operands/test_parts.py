"""Parts that the host cuts, against the golden model's."""

import numpy as np
import pytest

from openmxu.spec.passes import PASSES, Part
from openmxu_sim import golden
from openmxu_sim.golden import passes
from openmxu_sim.operands import vectors
from openmxu_sim.operands.parts import part_of

from ...bits import same_bits

LETTERS = dict(zip(Part, "xhrml", strict=True))


@pytest.mark.parametrize("mode", ["flush", "ieee"])
@pytest.mark.parametrize("part", Part)
def test_after_conversion_they_are_the_golden_ones(part: Part, mode: str) -> None:
    spread = np.arange(0, 1 << 32, 65521, dtype=np.uint64).astype(np.uint32)
    bits = np.concatenate([vectors.corners("fp32"), vectors.operands("fp32", 20000, seed=1), spread])
    got = golden.convert(part_of(bits, part), "fp32", "bf16", subnormals=mode)
    same_bits(got, passes.split(bits, LETTERS[part], subnormals=mode), bits, fmt="bf16", note=f"{part}, {mode}")


def test_the_same_passes_in_the_same_order() -> None:
    assert {name: tuple((LETTERS[a], LETTERS[b]) for a, b in pairs) for name, pairs in PASSES.items()} == passes.PASSES
