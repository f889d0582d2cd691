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

import torch

from openmxu_sim.torch.products import Multiplier

__all__ = ["Convolution"]


@dataclass(frozen=True)
class Convolution:
    """Steps of a convolution's kernel over an image of any number of dimensions.

    Parameters
    ----------
    multiplier
        What multiplies matrices.
    kernel
        The kernel's size.
    stride, padding, dilation
        As of torch's convolutions, one for each dimension.
    groups
        Into how many parts channels are divided, each convolved by itself.
    """

    multiplier: Multiplier
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @classmethod
    def of(
        cls,
        multiplier: Multiplier,
        weight: torch.Tensor,
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        groups: int,
    ) -> "Convolution":
        """A convolution with weights (channels, channels, *kernel); one number may stand for all dimensions."""
        kernel = tuple(weight.shape[2:])
        dimensions = len(kernel)
        return cls(
            multiplier,
            kernel,
            _expand(stride, dimensions),
            _expand(padding, dimensions),
            _expand(dilation, dimensions),
            groups,
        )

    def image(self, places: Sequence[int], beyond: Sequence[int]) -> tuple[int, ...]:
        """The size of an image with so many places of the kernel, and so many pixels more that none reaches."""
        return tuple(
            (count - 1) * stride - 2 * padding + dilation * (kernel - 1) + more + 1
            for count, more, kernel, stride, padding, dilation in zip(
                places,
                _expand(beyond, len(self.kernel)),
                self.kernel,
                self.stride,
                self.padding,
                self.dilation,
                strict=True,
            )
        )

    def places(self, image: Sequence[int]) -> tuple[int, ...]:
        """How many places the kernel has in an image of this size, along each dimension."""
        return tuple(
            (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
            for size, kernel, stride, padding, dilation in zip(
                image, self.kernel, self.stride, self.padding, self.dilation, strict=True
            )
        )

    def gather(self, image: torch.Tensor, weight: torch.Tensor, places: Sequence[int]) -> torch.Tensor:
        """From (N, Cin, *image) by (Cout, Cin / groups, *kernel) to (N, Cout, *places): the usual convolution."""
        patches = self._windows(image, places).reshape(len(image), self.groups, -1, math.prod(places))
        return self.multiplier.images(self._flat(weight), patches).reshape(len(image), len(weight), *places)

    def scatter(self, values: torch.Tensor, weight: torch.Tensor, image: Sequence[int]) -> torch.Tensor:
        """From (N, Cout, *places) by the same weights to (N, Cin, *image): its transpose."""
        count, places = len(values), tuple(values.shape[2:])
        flat = self._flat(weight).transpose(1, 2)
        entries = self.multiplier.images(flat, values.reshape(count, self.groups, -1, math.prod(places)))
        return self._add_entries(entries.reshape(count, -1, *self.kernel, *places), places, tuple(image))

    def correlate(self, values: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        """From (N, Cout, *places) and (N, Cin, *image) to (Cout, Cin / groups, *kernel): the weights' gradient."""
        places = tuple(values.shape[2:])
        inner = len(values) * math.prod(places)
        left = values.transpose(0, 1).reshape(self.groups, -1, inner)
        right = self._windows(image, places).movedim(0, 1 + len(self.kernel)).reshape(self.groups, -1, inner)
        return self.multiplier.stacks(left, right.transpose(1, 2)).reshape(values.shape[1], -1, *self.kernel)

    def _flat(self, weight: torch.Tensor) -> torch.Tensor:
        """(groups, Cout / groups, K)."""
        return weight.reshape(self.groups, len(weight) // self.groups, -1)

    def _windows(self, image: torch.Tensor, places: Sequence[int]) -> torch.Tensor:
        """(N, Cin, *kernel, *places): the pixels under each tap at each place, not copied yet."""
        sides = itertools.chain.from_iterable((padding, padding) for padding in reversed(self.padding))
        padded = torch.nn.functional.pad(image, tuple(sides)) if any(self.padding) else image
        strides = padded.stride()
        steps = zip(strides[2:], self.dilation, strict=True), zip(strides[2:], self.stride, strict=True)
        return padded.as_strided(
            (*padded.shape[:2], *self.kernel, *places),
            (*strides[:2], *(step * each for pairs in steps for step, each in pairs)),
        )

    def _add_entries(self, entries: torch.Tensor, places: tuple[int, ...], image: tuple[int, ...]) -> torch.Tensor:
        """The sum at each pixel of an image of all entries that belong to it."""
        padded = (size + 2 * padding for size, padding in zip(image, self.padding, strict=True))
        sums = entries.new_zeros((*entries.shape[:2], *padded))
        for tap in itertools.product(*map(range, self.kernel)):
            at = tuple(
                slice(dilation * number, dilation * number + stride * (count - 1) + 1, stride)
                for number, dilation, stride, count in zip(tap, self.dilation, self.stride, places, strict=True)
            )
            sums[(..., *at)] += entries[(slice(None), slice(None), *tap)]
        inside = (slice(padding, padding + size) for size, padding in zip(image, self.padding, strict=True))
        return sums[(..., *inside)].contiguous()


def _expand(values: Sequence[int], dimensions: int) -> tuple[int, ...]:
    """One value for each dimension; a single one is for all."""
    return tuple(values) * (dimensions if len(values) == 1 else 1)
