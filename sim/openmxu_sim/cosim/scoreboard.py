"""Comparison of words with expected ones, bit for bit."""

from collections import deque
from collections.abc import Sequence

import numpy as np

from openmxu_sim.golden import find_format
from openmxu_sim.golden.formats import decode
from openmxu_sim.operands.aliases import Words


def describe(pattern: int, fmt: str) -> str:
    """Return a pattern in hexadecimal, and as the number that it means in ``fmt``; ``""``: an integer."""
    if not fmt:
        return f"{pattern:X}"
    layout = find_format(fmt)
    value = float(decode(np.array(pattern, dtype=np.uint32), layout))
    return f"{pattern:0{(layout.width + 3) // 4}X} ({value!r})"


def _complain(
    what: str, got: int, expected: int, *, fmt: str, operands: Sequence[int], operand: str, cycle: int, seed: int
) -> AssertionError:
    return AssertionError(
        f"{what}: got {describe(got, fmt)}, expected {describe(expected, fmt)}, "
        f"operands {', '.join(describe(word, operand) for word in operands)}, cycle {cycle}, seed {seed}"
    )


def check(
    what: str,
    got: Words,
    expected: Words,
    *,
    fmt: str,
    operands: Sequence[Words],
    operand: str,
    cycles: Sequence[int],
    seed: int,
) -> None:
    """Compare words, all at once.

    Parameters
    ----------
    what
        Name, for messages.
    got, expected
        Patterns, one dimension.
    fmt
        Their format; ``""`` for integers.
    operands
        Operands of the words, each as long as ``got``.
    operand
        Format of the operands.
    cycles
        Cycles in which the words came.
    seed
        Seed of the operands.

    Raises
    ------
    AssertionError
        A word differs; the text is about the first one.
    """
    if got.shape != expected.shape or got.ndim != 1:
        raise ValueError(f"got and expected must have one dimension, not {got.shape} and {expected.shape}")
    different = np.flatnonzero(got != expected)
    if different.size:
        first = int(different[0])
        raise _complain(
            f"{what}: {different.size} of {got.size} differ, first number {first}",
            int(got[first]),
            int(expected[first]),
            fmt=fmt,
            operands=[int(array[first]) for array in operands],
            operand=operand,
            cycle=cycles[first],
            seed=seed,
        )


class Scoreboard:
    """Expected beats, compared with received ones, in order.

    A beat is ``lanes`` words of a format, lane 0 lowest, and marks above them.

    Parameters
    ----------
    what
        Name, for messages.
    fmt
        Format of the words.
    lanes
        Words of a beat.
    operand
        Format of the operands.
    seed
        Seed of the operands, for messages.
    """

    def __init__(self, what: str, fmt: str, *, lanes: int = 1, operand: str, seed: int) -> None:
        self._what = what
        self._fmt = fmt
        self._lanes = lanes
        self._operand = operand
        self._seed = seed
        self._expected: deque[tuple[int, Sequence[Sequence[int]]]] = deque()
        self.received = 0

    @property
    def pending(self) -> int:
        """Number of expected beats that have not come yet."""
        return len(self._expected)

    def expect(self, beat: int, operands: Sequence[Sequence[int]]) -> None:
        """Add an expected beat, and the operands of each lane."""
        self._expected.append((beat, operands))

    def forget(self) -> None:
        """Forget all expected beats, as after a reset."""
        self._expected.clear()

    def receive(self, beat: int, cycle: int) -> None:
        """Compare a beat with the next one expected.

        Raises
        ------
        AssertionError
            It differs, or none is expected.
        """
        if not self._expected:
            raise AssertionError(
                f"{self._what}: {beat:#x} came and nothing was expected, cycle {cycle}, seed {self._seed}"
            )
        expected, operands = self._expected.popleft()
        self.received += 1
        if beat == expected:
            return
        what = f"{self._what}: beat {self.received - 1}"
        width = find_format(self._fmt).width
        for lane in range(self._lanes):
            words = [value >> (lane * width) & ((1 << width) - 1) for value in (beat, expected)]
            if words[0] != words[1]:
                raise _complain(
                    f"{what}, lane {lane}",
                    words[0],
                    words[1],
                    fmt=self._fmt,
                    operands=operands[lane],
                    operand=self._operand,
                    cycle=cycle,
                    seed=self._seed,
                )
        marks = [value >> (self._lanes * width) for value in (beat, expected)]
        raise AssertionError(f"{what}: marks {marks[0]:b}, expected {marks[1]:b}, cycle {cycle}, seed {self._seed}")
