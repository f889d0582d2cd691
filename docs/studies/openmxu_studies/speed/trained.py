"""Networks whose training steps are timed, in the shapes of published ones, with few layers left out.

Each function that :data:`~openmxu_studies.speed.measure.NETWORKS` names makes a network and its input; the loss is the
mean of squares of what the network gives.
"""

import math

import torch
from torch import nn

from openmxu_studies.training.tasks import Transformer

Example = tuple[nn.Module, torch.Tensor]
"""A network and an input."""


class _Sum(nn.Module):
    """Sum of the outputs of two branches."""

    def __init__(self, layers: nn.Module, others: nn.Module | None = None) -> None:
        super().__init__()
        self.layers, self.others = layers, others or nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x) + self.others(x)


def _convolution(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, act: nn.Module | None = None
) -> nn.Sequential:
    """Return a convolution, its normalisation, and an activation."""
    layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), act or nn.Identity())


def resnet18() -> Example:
    """Return ResNet18 for 32x32 pixels: a first kernel of 3x3, and no pooling behind it."""
    layers, last = [_convolution(3, 64, 3, act=nn.ReLU())], 64
    for width in (64, 128, 256, 512):
        for _ in range(2):
            stride = 1 if width in (64, last) else 2
            block = nn.Sequential(_convolution(last, width, 3, stride, act=nn.ReLU()), _convolution(width, width, 3))
            beside = None if last == width else _convolution(last, width, 1, stride)
            layers += [nn.Sequential(_Sum(block, beside), nn.ReLU())]
            last = width
    layers += [nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, 10))]
    return nn.Sequential(*layers), torch.randn(32, 3, 32, 32)


class _Squeeze(nn.Module):
    """Each channel times a number that is made of the means of all."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, inner, 1), nn.ReLU(), nn.Conv2d(inner, channels, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * nn.functional.hardsigmoid(self.layers(x))


_MOBILE = (
    *((3, 16, 16, True, False, 2), (3, 72, 24, False, False, 2), (3, 88, 24, False, False, 1)),
    *((5, 96, 40, True, True, 2), (5, 240, 40, True, True, 1), (5, 240, 40, True, True, 1)),
    *((5, 120, 48, True, True, 1), (5, 144, 48, True, True, 1)),
    *((5, 288, 96, True, True, 2), (5, 576, 96, True, True, 1), (5, 576, 96, True, True, 1)),
)
"""Blocks: kernel, inner and outer channels, whether channels are weighted, whether hard swish is used, stride."""


def mobilenet() -> Example:
    """Return MobileNetV3-small."""
    layers, last = [_convolution(3, 16, 3, 2, act=nn.Hardswish())], 16
    for kernel, inner, outer, weighted, swish, stride in _MOBILE:
        act = nn.Hardswish() if swish else nn.ReLU()
        block = nn.Sequential(
            _convolution(last, inner, 1, act=act),
            _convolution(inner, inner, kernel, stride, inner, act),
            _Squeeze(inner, max(8, inner // 32 * 8)) if weighted else nn.Identity(),
            _convolution(inner, outer, 1),
        )
        layers, last = [*layers, _Sum(block) if (stride, last) == (1, outer) else block], outer
    layers += [_convolution(last, 576, 1, act=nn.Hardswish()), nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())]
    layers += [nn.Sequential(nn.Linear(576, 1024), nn.Hardswish(), nn.Linear(1024, 10))]
    return nn.Sequential(*layers), torch.randn(16, 3, 64, 64)


class _Recurrent(nn.Module):
    """Output of an LSTM of two layers at each step."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.LSTM(width, width, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.layers(x)[0]
        return outputs


class _Mamba(nn.Module):
    """Mamba's block, with its selective scan written step by step, as its authors' reference is."""

    def __init__(self, width: int, states: int = 16, taps: int = 4) -> None:
        super().__init__()
        self.rank, self.inner = math.ceil(width / 16), 2 * width
        self.norm, self.into, self.out = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(2 * width, width)
        self.taps = nn.Conv1d(self.inner, self.inner, taps, padding=taps - 1, groups=self.inner)
        self.select, self.step = nn.Linear(self.inner, self.rank + 2 * states), nn.Linear(self.rank, self.inner)
        self.decay = nn.Parameter(torch.arange(1.0, states + 1).log().repeat(self.inner, 1))
        self.skip = nn.Parameter(torch.ones(self.inner))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        u, gate = self.into(self.norm(x)).chunk(2, -1)
        u = nn.functional.silu(self.taps(u.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        states = (self.select.out_features - self.rank) // 2
        steps, b, c = self.select(u).split([self.rank, states, states], -1)
        delta = nn.functional.softplus(self.step(steps))
        decays = torch.exp(delta[..., None] * -self.decay.exp())
        inputs = delta[..., None] * b[:, :, None] * u[..., None]
        state, outputs = torch.zeros_like(decays[:, 0]), []
        for at in range(x.shape[1]):
            state = decays[:, at] * state + inputs[:, at]
            outputs.append(torch.einsum("bdn,bn->bd", state, c[:, at]))
        y = torch.stack(outputs, 1) + u * self.skip
        whole: torch.Tensor = x + self.out(y * nn.functional.silu(gate))
        return whole


def lstm() -> Example:
    """Return two layers, and 64 steps of 32 sequences."""
    return _Recurrent(256), torch.randn(64, 32, 256)


def mamba() -> Example:
    """Return two blocks, and two sequences of 64 steps."""
    return nn.Sequential(_Mamba(128), _Mamba(128)), torch.randn(2, 64, 128)


def gpt2() -> Example:
    """Return a GPT-2 with an alphabet of 65 letters."""
    length = 128
    return Transformer(65, length, width=384, heads=6, layers=6), torch.randint(65, (4, length))
