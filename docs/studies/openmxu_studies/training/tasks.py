"""Two small networks in plain PyTorch, and their tasks: neither knows of units."""

from functools import cache
from typing import Protocol

import torch
from torch import nn
from torch.nn import functional

from openmxu_studies.training import data


class Convolutional(nn.Sequential):
    """Two convolutions and a linear layer, from images of one channel to ten classes."""

    def __init__(self, side: int) -> None:
        super().__init__(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * (side // 4) ** 2, 10),
        )


class _Block(nn.Module):
    """Causal attention and a perceptron, each with a connection around it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_perceptron = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """From (batch, length, width) to the same shape."""
        batch, length, width = tokens.shape
        projected = self.project(self.before_attention(tokens)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = projected.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        tokens = tokens + self.join(attended.transpose(1, 2).reshape(batch, length, width))
        return tokens + self.perceptron(self.before_perceptron(tokens))


class Transformer(nn.Module):
    """A language model: it predicts each next character from those before it."""

    def __init__(self, characters: int, length: int, *, width: int = 64, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.character, self.place = nn.Embedding(characters, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(_Block(width, heads) for _ in range(layers)))
        self.last, self.predict = nn.LayerNorm(width), nn.Linear(width, characters)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        """From (batch, length) characters to (batch, length, characters) logits."""
        places = self.place(torch.arange(characters.shape[1]))
        return self.predict(self.last(self.blocks(self.character(characters) + places)))


class Task(Protocol):
    """A network and its data, made from a seed."""

    model: nn.Module

    def batch(self) -> torch.Tensor:
        """Return places of the next batch in the data."""
        ...

    def loss(self, batch: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch."""
        ...

    def score(self) -> float:
        """Return the score on data that training has not seen."""
        ...


@cache
def _digits(source: str) -> tuple[torch.Tensor, torch.Tensor, int]:
    digits = data.digits(source)
    return torch.from_numpy(digits.images), torch.from_numpy(digits.labels), digits.train


class DigitsTask:
    """Classify digits; the score is the accuracy."""

    BATCH = 64

    def __init__(self, seed: int, source: str) -> None:
        torch.manual_seed(seed)
        self.images, self.labels, self.train = _digits(source)
        self.model: nn.Module = Convolutional(self.images.shape[-1])
        self._order = torch.Generator().manual_seed(seed)
        self._left: list[torch.Tensor] = []

    def batch(self) -> torch.Tensor:
        """Return numbers of images; each comes once before any comes again."""
        if not self._left:
            batches = torch.randperm(self.train, generator=self._order).split(self.BATCH)
            self._left = [batch for batch in batches if len(batch) == self.BATCH]
        return self._left.pop()

    def loss(self, batch: torch.Tensor) -> torch.Tensor:
        """Return the loss of some images."""
        return functional.cross_entropy(self.model(self.images[batch]), self.labels[batch])

    def score(self) -> float:
        """Return the share of test images that are put into their class."""
        classes = self.model(self.images[self.train :]).argmax(1)
        return float((classes == self.labels[self.train :]).float().mean())


@cache
def _text() -> tuple[torch.Tensor, int]:
    """Return all characters as numbers, and the number of different ones."""
    whole = data.text()
    numbers = {character: number for number, character in enumerate(sorted(set(whole)))}
    return torch.tensor([numbers[character] for character in whole]), len(numbers)


class TextTask:
    """Predict the next character; the score is the loss in nats on the last tenth of the text."""

    BATCH, LENGTH, WINDOWS = 16, 64, 64

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.characters, different = _text()
        self.train = len(self.characters) * 9 // 10
        self.model: nn.Module = Transformer(different, self.LENGTH)
        self._places = torch.Generator().manual_seed(seed)

    def batch(self) -> torch.Tensor:
        """Return random places in the text."""
        return torch.randint(self.train - self.LENGTH, (self.BATCH,), generator=self._places)

    def loss(self, batch: torch.Tensor) -> torch.Tensor:
        """Return the loss of the text from some places on."""
        windows = self.characters[batch[:, None] + torch.arange(self.LENGTH + 1)]
        logits = self.model(windows[:, :-1])
        return functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())

    def score(self) -> float:
        """Return the loss of windows at equal distances."""
        last = len(self.characters) - self.LENGTH - 1
        return float(self.loss(torch.linspace(self.train, last, self.WINDOWS).long()))
