"""Three networks in plain PyTorch, and their tasks: none knows of units."""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import nn
from torch.nn import functional

from openmxu_studies.training.tasks import DigitsTask, Task, TextTask, Transformer


class _Residual(nn.Module):
    """Two convolutions with batch normalisation, and a connection around them."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))
        self.around = nn.Identity() if channels == width else nn.Conv2d(channels, width, 1, stride, bias=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """From (N, channels, H, W) to (N, width, H / stride, W / stride)."""
        inner = functional.relu(self.norms[0](self.first(images)))
        return functional.relu(self.norms[1](self.second(inner)) + self.around(images))


class ResNet(nn.Sequential):
    """Seven convolutions in three blocks, and a linear layer."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(1, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            _Residual(8, 8, 1),
            _Residual(8, 16, 2),
            _Residual(16, 32, 2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, 10),
        )


class VisionTransformer(nn.Module):
    """Patches of 4x4 pixels, two layers of attention, and a linear layer."""

    WIDTH = 48

    def __init__(self, side: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, self.WIDTH, 4, stride=4)
        self.places = nn.Parameter(torch.randn((side // 4) ** 2, self.WIDTH) * 0.02)
        layer = nn.TransformerEncoderLayer(
            self.WIDTH, 4, 4 * self.WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.classify = nn.Linear(self.WIDTH, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """From (N, 1, side, side) to (N, 10)."""
        tokens = self.patches(images).flatten(2).mT + self.places
        classes: torch.Tensor = self.classify(self.layers(tokens).mean(1))
        return classes


_TESTED = 1000
"""Images on which networks are tested."""


class _Digits(DigitsTask):
    BATCH = 32

    def __init__(self, network: Callable[[], nn.Module], seed: int) -> None:
        super().__init__(seed, "mnist")
        self.images, self.labels = self.images[: self.train + _TESTED], self.labels[: self.train + _TESTED]
        torch.manual_seed(seed)
        self.model = network()


class _Normalised(_Digits):
    def score(self) -> float:
        """Return the score with the means and variances of training."""
        self.model.eval()
        return super().score()


class _Text(TextTask):
    """The text in windows of 128 characters, and a transformer of 11 million parameters."""

    BATCH, LENGTH, WINDOWS = 4, 128, 16

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        torch.manual_seed(seed)
        different = self.model.predict.out_features
        self.model = Transformer(different, self.LENGTH, width=336, heads=8, layers=8)


LEARNERS: Mapping[str, Callable[[int], Task]] = {
    "resnet": partial(_Normalised, ResNet),
    "vit": partial(_Digits, partial(VisionTransformer, 28)),
    "text": _Text,
}
"""Functions that make a network and its data from a seed."""
