"""Pictures: how a tensor of a model is pictures, where the scratchpad or the memory has them, pixels that share a row.

::

    dims    sizes N x C x H x W    order   groups
    1x3x8x9     1 x 3 x 8 x 9      NCHW    "" C H W       an image
    2x8x9x3     2 x 3 x 8 x 9      NHWC    N H W C        images, channels last
    1x3x1x9     1 x 3 x 9 x 1      NCHW    "" C "" H      a line, as a column, which may be of any length
    1x216       1 x 3 x 8 x 9      NCHW    "" CHW         an image as a vector
    5x16        1 x 16 x 5 x 1     NHWC    H C            five rows, pixels of one image

A tensor's numbers stand in the order of its letters, so whatever keeps that order changes ``dims`` alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from openmxu_sim.operands.aliases import Floats

Shape = tuple[int, int, int]
"""Channels, lines and pixels of a picture."""


class Packing(NamedTuple):
    """Pixels of the network's input in one row, channel by channel: those below a line of the kernel, or some."""

    kernel: int = 1
    stride: int = 1
    padding: tuple[int, int] = (0, 0)
    width: int = 0
    """Pixels of a line before they are packed; 0: as many as after."""

    def apply(self, values: Floats) -> Floats:
        """Return a picture (channels, y, x) with the channels of ``kernel`` pixels at each place."""
        padded = np.pad(values, ((0, 0), (0, 0), self.padding))
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.kernel, axis=2)[:, :, :: self.stride]
        channels = self.kernel * len(values)
        return np.ascontiguousarray(windows.transpose(3, 0, 1, 2)).reshape(channels, *windows.shape[1:3])


PLAIN = Packing()


@dataclass(frozen=True)
class Picture:
    """Channels of pixels in the scratchpad."""

    base: int
    channels: int
    height: int
    width: int
    border: tuple[int, int, int, int]
    """Lines above, pixels on the left, lines below, pixels on the right, all of them zeros."""
    packing: Packing = PLAIN

    @property
    def pitch(self) -> int:
        """Rows from a line to the next."""
        return self.border[1] + self.width + self.border[3]

    @property
    def plane(self) -> int:
        """Rows from a block of channels to the next."""
        return (self.border[0] + self.height + self.border[2]) * self.pitch

    @property
    def shape(self) -> Shape:
        """Channels, lines and pixels before they are packed."""
        return self.channels // self.packing.kernel, self.height, self.packing.width or self.width

    def row(self, y: int, x: int) -> int:
        """The row of a pixel in block 0, borders included."""
        return self.base + (self.border[0] + y) * self.pitch + self.border[1] + x

    def blocks(self, size: int) -> int:
        """Blocks of so many channels."""
        return -(-self.channels // size)

    def end(self, size: int) -> int:
        """The row behind it."""
        return self.base + self.blocks(size) * self.plane

    def rows(self, size: int) -> np.ndarray:
        """The rows of all pixels, (block, y, x)."""
        lines, pixels = np.arange(self.height) * self.pitch, np.arange(self.width)
        planes = np.arange(self.blocks(size)) * self.plane
        return np.add.outer(np.add.outer(planes, lines), pixels) + self.row(0, 0)


def equal_parts(size: int, most: int) -> list[range]:
    """Parts of so many lines at most, as equal as can be: tiles that are too short take as long as others."""
    count = -(-size // most)
    ends = [size * index // count for index in range(count + 1)]
    return [range(*pair) for pair in pairwise(ends)]


_LETTERS = "NCHW"


class View(NamedTuple):
    """A tensor as images of channels, lines and pixels."""

    dims: tuple[int, ...]
    """The tensor's shape."""
    sizes: tuple[int, int, int, int]
    """Images, channels, lines and pixels."""
    order: str = _LETTERS
    """Letters of these, from the outermost to the innermost."""

    def check(self) -> None:
        """Raise a :exc:`ValueError` if the shape is not one of the sizes, or the order not one of the letters."""
        fits = len(self.sizes) == len(_LETTERS) and min(self.sizes, default=0) > 0
        if not fits or sorted(self.order) != sorted(_LETTERS) or math.prod(self.dims) != math.prod(self.sizes):
            raise ValueError(f"{self.dims} must be images of {self.sizes} in the order of {_LETTERS}, not {self.order}")

    @property
    def images(self) -> int:
        return self.sizes[0]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, lines and pixels."""
        return self.sizes[1:]

    @property
    def significant(self) -> str:
        """The order without letters of size 1, which may stand anywhere."""
        return "".join(filter(self._is_axis, self.order))

    def _size(self, letter: str) -> int:
        return self.sizes[_LETTERS.index(letter)]

    def groups(self) -> tuple[str, ...] | None:
        """Letters that each of the dims is of; none if one is of a part of a letter."""
        left, found = self.significant, list[str]()
        for dim in self.dims:
            group = ""
            while math.prod(map(self._size, group)) < dim and left:
                group, left = group + left[0], left[1:]
            if math.prod(map(self._size, group)) != dim:
                return None
            found.append(group)
        return tuple(found)

    def has_channels_at(self, axis: int) -> bool:
        """Whether an axis is of the channels alone."""
        channels, place = self.shape[0], axis % len(self.dims)
        behind = math.prod(map(self._size, self.order.partition("C")[2]))
        return self.dims[place] == channels and (channels == 1 or math.prod(self.dims[place + 1 :]) == behind)

    def plane(self) -> str | None:
        """Letters of the axes behind images and channels: ``HW``, ``WH``, ``H`` or ``W``; none of other tensors."""
        channels, lines, pixels = self.shape
        ordered = [plane for plane in ("HW", "WH") if self.significant == "".join(filter(self._is_axis, f"NC{plane}"))]
        if "HW" in ordered and self.dims == self.sizes:
            return "HW"
        if "WH" in ordered and self.dims == (self.images, channels, pixels, lines):
            return "WH"
        if ordered and self.dims == (self.images, channels, lines * pixels) and 1 in (lines, pixels):
            return "W" if lines == 1 else "H"
        return None

    def _is_axis(self, letter: str) -> bool:
        return self._size(letter) > 1

    def transposed(self, axes: Sequence[int]) -> "View | None":
        """The view of the tensor with its axes in another order, if there is one."""
        if (groups := self.groups()) is None:
            return None
        letters = "".join(groups[axis] for axis in axes)
        order = letters + "".join(letter for letter in _LETTERS if letter not in letters)
        return View(tuple(self.dims[axis] for axis in axes), self.sizes, order)

    def to_images(self, tensor: npt.NDArray[Any]) -> Floats:
        """The images of a tensor, (images, channels, y, x) in fp32."""
        ordered = np.asarray(tensor, np.float32).reshape([self._size(letter) for letter in self.order])
        return np.ascontiguousarray(ordered.transpose([self.order.index(letter) for letter in _LETTERS]))

    def to_tensor(self, images: Floats) -> Floats:
        """The tensor of images."""
        return np.ascontiguousarray(images.transpose([_LETTERS.index(letter) for letter in self.order])).reshape(
            self.dims
        )
