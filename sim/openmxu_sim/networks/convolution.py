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

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from openmxu_sim.engines.model.placed import Offsets, Side
from openmxu_sim.networks.numerics import Multiplier, Seen
from openmxu_sim.operands.aliases import Floats

Shape = Sequence[int]


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

    def __post_init__(self) -> None:
        dimensions = len(self.kernel)
        lengths = [len(each) for each in (self.stride, self.padding, self.dilation)]
        if lengths != [dimensions] * 3 or min(*self.kernel, *self.stride, *self.dilation, self.groups, 1) < 1:
            raise ValueError(
                "kernel, stride and dilation must be positive numbers, and padding two, for each dimension, and groups "
                f"positive, not {self.kernel}, {self.stride}, {self.dilation}, {self.padding} and {self.groups}"
            )
        if min((side for pair in self.padding for side in pair), default=0) < 0:
            raise ValueError(f"padding must be at least 0, not {self.padding}")

    def _check(self, weight: Shape, image: Shape, values: Shape) -> None:
        """Check that (Cout, Cin / groups, *kernel), (N, Cin, *image) and (N, Cout, *places) fit each other."""
        ranks = {len(weight), len(image), len(values), 2 + len(self.kernel)}
        fits = len(ranks) == 1 and not weight[0] % self.groups and weight[2:] == self.kernel
        fits = fits and (values[1], image[1], image[0]) == (weight[0], weight[1] * self.groups, values[0])
        if not fits or any(not 0 < each <= most for each, most in zip(values[2:], self.places(image[2:]), strict=True)):
            raise ValueError(
                f"weights {tuple(weight)} with a kernel {self.kernel} in {self.groups} groups must fit images "
                f"{tuple(image)} and their results {tuple(values)}"
            )

    def places(self, image: Shape) -> tuple[int, ...]:
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
        self._check(weight.shape, image.shape, (len(image), len(weight), *places))
        image, result = self._padded(image), np.empty((len(image), len(weight), *places), np.float32)
        count, outer, inner = len(image) * math.prod(places), len(weight) // self.groups, math.prod(weight.shape[1:])
        seen = Seen((self.groups, count, inner, outer), (self._windows(image, places), weight))
        at, rows, step = self._plainly(result)
        left = Side(np.ascontiguousarray(weight), _steps(outer, inner), _steps(inner), outer * inner, along_k=True)
        right = Side(image, *self._patches(image, places), along_k=False)
        results = Side(result, rows, at, step, along_k=False)
        self.multiplier.placed(left, right, results, self.groups, seen, swapped=True)
        return result

    def scatter(self, values: Floats, weight: Floats, image: Sequence[int]) -> Floats:
        """Transpose of :meth:`gather`: (N, Cout, *places) with the same weights gives (N, Cin, *image)."""
        self._check(weight.shape, (len(values), weight.shape[1] * self.groups, *image), values.shape)
        if min(image) < 1:
            raise ValueError(f"padding must leave an image, not one of {tuple(image)}")
        padded = (size + sum(pair) for size, pair in zip(image, self.padding, strict=True))
        sums = np.zeros((len(values), weight.shape[1] * self.groups, *padded), np.float32)
        places, taps = values.shape[2:], math.prod(self.kernel)
        count, outer, inner = len(values) * math.prod(places), len(weight) // self.groups, math.prod(weight.shape[1:])
        seen = Seen((self.groups, count, outer, inner), (values, weight))
        left = Side(np.ascontiguousarray(weight), _steps(inner), _steps(outer, inner), outer * inner, along_k=False)
        right = Side(np.ascontiguousarray(values), *self._plainly(values), along_k=False)
        at, rows, step = self._patches(sums, places)
        results = Side(sums, rows, at, step, along_k=False)
        units = taps, math.prod(places)
        self.multiplier.placed(left, right, results, self.groups, seen, swapped=True, units=units, add=True)
        return np.ascontiguousarray(sums[self._inside(image)])

    def correlate(self, values: Floats, image: Floats) -> Floats:
        """Return the weights' gradient (Cout, Cin / groups, *kernel) from (N, Cout, *places) and (N, Cin, *image)."""
        channels = image.shape[1] // self.groups
        self._check((values.shape[1], channels, *self.kernel), image.shape, values.shape)
        image, places = self._padded(image), values.shape[2:]
        result = np.empty((values.shape[1], channels, *self.kernel), np.float32)
        count, outer, inner = len(image) * math.prod(places), len(result) // self.groups, math.prod(result.shape[1:])
        seen = Seen((self.groups, outer, count, inner), (values, self._windows(image, places)))
        at, rows, step = self._plainly(values)
        left = Side(np.ascontiguousarray(values), rows, at, step, along_k=True)
        at, columns, step = self._patches(image, places)
        right = Side(image, columns, at, step, along_k=True)
        results = Side(result, _steps(outer, inner), _steps(inner), outer * inner, along_k=False)
        self.multiplier.placed(left, right, results, self.groups, seen, swapped=False)
        return result

    def _plainly(self, values: Floats) -> tuple[Offsets, Offsets, int]:
        """Return offsets in (N, C, *places): of places of all images, of a group's channels, and of groups."""
        length, channels = math.prod(values.shape[2:]), values.shape[1] // self.groups
        at = _sums(_steps(len(values), values.shape[1] * length), _steps(length))
        return at, _steps(channels, length), channels * length

    def _patches(self, image: Floats, places: Sequence[int]) -> tuple[Offsets, Offsets, int]:
        """Return offsets in (N, C, *image): of places of all images, of all taps of a group's channels, of groups."""
        pixels = [stride // image.itemsize for stride in image.strides[2:]]
        size, channels = math.prod(image.shape[2:]), image.shape[1] // self.groups
        of_places = (_steps(*sizes) for sizes in zip(places, np.multiply(pixels, self.stride), strict=True))
        of_taps = (_steps(*sizes) for sizes in zip(self.kernel, np.multiply(pixels, self.dilation), strict=True))
        at = _sums(_steps(len(image), image.shape[1] * size), *of_places)
        return at, _sums(_steps(channels, size), *of_taps), channels * size

    def _padded(self, image: Floats) -> Floats:
        """Return a contiguous image with its zeros around it."""
        if not any(map(any, self.padding)):
            return np.ascontiguousarray(image)
        sizes = (size + sum(pair) for size, pair in zip(image.shape[2:], self.padding, strict=True))
        padded = np.zeros((*image.shape[:2], *sizes), image.dtype)
        padded[self._inside(image.shape[2:])] = image
        return padded

    def _windows(self, image: Floats, places: Sequence[int]) -> Floats:
        """Return (N, Cin, *kernel, *places): the pixels of a padded image under each tap at each place, not copied."""
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


def _steps(count: int, step: int = 1) -> Offsets:
    return np.arange(count, dtype=np.int64) * step


def _sums(*offsets: Offsets) -> Offsets:
    """Return the sums of one offset of each, the last one fastest."""
    return reduce(lambda one, other: np.add.outer(one, other).reshape(-1), offsets)
