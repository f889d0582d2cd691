"""Convolutions as products of matrices.

A convolution multiplies, for each group of channels, the (Cout, K) weights by the (K, L) patches of an image: K counts
the input's channels and, within each, the places of the kernel; L the places of the output. So the sum over K is formed
in this order, by tiles of the array's rows. ::

                      patches, one column for each place of the output
                       o0  o1  o2 ...
    channel 0, tap 0 [ x0  x1  x2     ]          the gradient of the weights multiplies the (Cout, L) gradients of all
    channel 0, tap 1 [ x1  x2  x3     ]          images, side by side, by the transposed patches: its sums are over
    channel 1, tap 0 [ y0  y1  y2     ]          images and, within each, places
    ...

The gradient of the input multiplies the transposed weights by the gradients, over the channels of the output: a value
for each entry of the patches. Entries that came from the same pixel are then added outside of the array, in fp32, in
the order of taps. A transposed convolution is the same computation: forward here is backward there.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from openmxu_sim.networks.numerics import Multiplier
from openmxu_sim.operands.aliases import Floats


@dataclass(frozen=True)
class Convolution:
    """A convolution: a kernel that steps over images of any number of dimensions."""

    multiplier: Multiplier
    """The multiplier of matrices."""
    kernel: tuple[int, ...]
    """The kernel's size."""
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    """For each dimension: pixels from one place to the next, zeros before and after the image, pixels from one tap to
    the next."""
    groups: int
    """Number of groups of channels, each convolved by itself."""

    def places(self, image: Sequence[int]) -> tuple[int, ...]:
        """Return the number of places of the kernel in an image of this size, along each dimension."""
        return tuple(
            (size + sum(padding) - dilation * (kernel - 1) - 1) // stride + 1
            for size, kernel, stride, padding, dilation in zip(
                image, self.kernel, self.stride, self.padding, self.dilation, strict=True
            )
        )

    def image(self, places: Sequence[int], beyond: Sequence[int]) -> tuple[int, ...]:
        """Return the size of an image with so many places of the kernel, and so many more pixels that none reaches."""
        return tuple(
            (count - 1) * stride - sum(padding) + dilation * (kernel - 1) + more + 1
            for count, more, kernel, stride, padding, dilation in zip(
                places, beyond, self.kernel, self.stride, self.padding, self.dilation, strict=True
            )
        )

    def gather(self, image: Floats, weight: Floats, places: Sequence[int]) -> Floats:
        """Convolve (N, Cin, *image) with (Cout, Cin / groups, *kernel): (N, Cout, *places), the usual convolution."""
        inner = image.shape[1] // self.groups * math.prod(self.kernel)
        patches = self._windows(image, places).reshape(len(image), self.groups, inner, math.prod(places))
        return self.multiplier.images(self._flat(weight), patches).reshape(len(image), len(weight), *places)

    def scatter(self, values: Floats, weight: Floats, image: Sequence[int]) -> Floats:
        """Transpose of :meth:`gather`: (N, Cout, *places) with the same weights gives (N, Cin, *image)."""
        count, places = len(values), values.shape[2:]
        flat = self._flat(weight).swapaxes(1, 2)
        inner = values.shape[1] // self.groups
        entries = self.multiplier.images(flat, values.reshape(count, self.groups, inner, math.prod(places)))
        return self._add_entries(entries.reshape(count, -1, *self.kernel, *places), places, image)

    def correlate(self, values: Floats, image: Floats) -> Floats:
        """Return the weights' gradient (Cout, Cin / groups, *kernel) from (N, Cout, *places) and (N, Cin, *image)."""
        places = values.shape[2:]
        inner = len(values) * math.prod(places)
        left = values.swapaxes(0, 1).reshape(self.groups, -1, inner)
        right = np.moveaxis(self._windows(image, places), 0, 1 + len(self.kernel)).reshape(self.groups, -1, inner)
        return self.multiplier.stacks(left, right.swapaxes(1, 2)).reshape(values.shape[1], -1, *self.kernel)

    def _flat(self, weight: Floats) -> Floats:
        """Return the weights as (groups, Cout / groups, K)."""
        return weight.reshape(self.groups, len(weight) // self.groups, -1)

    def _windows(self, image: Floats, places: Sequence[int]) -> Floats:
        """Return (N, Cin, *kernel, *places): the pixels under each tap at each place, not copied yet."""
        if any(map(any, self.padding)):
            sizes = (size + sum(pair) for size, pair in zip(image.shape[2:], self.padding, strict=True))
            padded = np.zeros((*image.shape[:2], *sizes), image.dtype)
            padded[self._inside(image.shape[2:])] = image
            image = padded
        strides = image.strides
        steps = zip(strides[2:], self.dilation, strict=True), zip(strides[2:], self.stride, strict=True)
        return np.lib.stride_tricks.as_strided(
            image,
            (*image.shape[:2], *self.kernel, *places),
            (*strides[:2], *(step * stride for pairs in steps for step, stride in pairs)),
            writeable=False,
        )

    def _inside(self, image: Sequence[int]) -> tuple[slice, ...]:
        """Return the place of an image of this size within its padded array."""
        pixels = (slice(first, first + size) for size, (first, _) in zip(image, self.padding, strict=True))
        return (slice(None), slice(None), *pixels)

    def _add_entries(self, entries: Floats, places: Sequence[int], image: Sequence[int]) -> Floats:
        """Return the sum, at each pixel of an image, of all entries that belong to it."""
        padded = (size + sum(padding) for size, padding in zip(image, self.padding, strict=True))
        sums = np.zeros((*entries.shape[:2], *padded), entries.dtype)
        for tap in itertools.product(*map(range, self.kernel)):
            at: tuple[Any, ...] = tuple(
                slice(dilation * number, dilation * number + stride * (count - 1) + 1, stride)
                for number, dilation, stride, count in zip(tap, self.dilation, self.stride, places, strict=True)
            )
            reached: tuple[Any, ...] = (slice(None), slice(None), *tap)
            sums[(..., *at)] += entries[reached]
        return np.ascontiguousarray(sums[self._inside(image)])
