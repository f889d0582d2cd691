"""Inputs of published networks: files, lines of text, pages; and the right answers."""

import json
import pydoc_data.topics
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont
from scipy import ndimage

from openmxu_sim.onnx.runtime import load
from openmxu_sim.operands.aliases import Floats

_Answers = list[Any]
"""Answers of a network, one for each sample, in a form that can be compared."""


class Samples(NamedTuple):
    """Samples for a network."""

    batches: list[npt.NDArray[Any]]
    """Inputs of the network."""
    answers: Callable[[Floats], _Answers]
    """Function from the output for a batch to the answers, one for each sample."""
    truth: _Answers
    """The right answers."""


def files(count: int, config: bytes, kinds: bytes) -> Samples:
    """Return files of Python's own library and of installed packages, and the kinds that their names tell."""
    sizes = json.loads(config)
    labels, begin, end, padding = (
        sizes[key] for key in ("target_labels_space", "beg_size", "end_size", "padding_token")
    )
    known: dict[str, list[str]] = {}
    for label, kind in json.loads(kinds).items():
        for extension in kind["extensions"]:
            known.setdefault(f".{extension}", []).append(label)
    certain = {suffix: one for suffix, (one, *others) in known.items() if not others and one in labels}
    chosen = list(_by_turns(certain, count))

    def features(path: Path) -> list[int]:
        content = path.read_bytes()
        first, last = content[: sizes["block_size"]].lstrip()[:begin], content[-sizes["block_size"] :].rstrip()[-end:]
        return [*first, *[padding] * (begin - len(first)), *[padding] * (end - len(last)), *last]

    inputs = np.array([features(path) for path, _ in chosen], np.int32)
    return Samples(
        list(_in_batches(inputs)),
        lambda output: [labels[index] for index in output.argmax(1)],
        [label for _, label in chosen],
    )


def _by_turns(labels: Mapping[str, str], count: int) -> Iterator[tuple[Path, str]]:
    """Yield files whose names tell their kind, of each kind in turn."""
    folders = [Path(sysconfig.get_paths()[name]) for name in ("stdlib", "purelib")]
    by_suffix: dict[str, list[Path]] = {}
    for path in sorted({path for folder in folders for path in folder.rglob("*") if path.suffix in labels}):
        if path.is_file() and path.stat().st_size >= _SMALLEST:
            by_suffix.setdefault(path.suffix, []).append(path)
    turns = (pair for several in zip_longest(*by_suffix.values()) for pair in several)
    return islice(((path, labels[path.suffix]) for path in turns if path is not None), count)


_SMALLEST = 64
"""Least bytes of a file that is worth asking about."""


def _in_batches(inputs: Any) -> Iterator[Any]:
    """Yield slices of an array, or of a list."""
    return (inputs[first : first + _BATCH] for first in range(0, len(inputs), _BATCH))


_BATCH = 16


def _sentences(count: int) -> list[str]:
    """Return lines of text without characters that fonts draw alike."""
    lines = dict.fromkeys(
        line.strip() for _, topic in sorted(pydoc_data.topics.topics.items()) for line in topic.splitlines()
    )
    fitting = [line for line in lines if 12 <= len(line) <= 22 and line.isascii() and not set(line) & set("`'\"_|~^")]
    order = np.random.default_rng(0).permutation(len(fitting))[:count]
    return [fitting[index] for index in order]


def _drawn(lines: Sequence[str], shape: tuple[int, int], size: int, gap: int, seed: int) -> Floats:
    """Draw lines in one of three fonts under noise, as (3, height, width) numbers from -1 to 1."""
    fonts = Path(matplotlib.get_data_path(), "fonts/ttf")
    name = ("DejaVuSans", "DejaVuSerif", "DejaVuSansMono")[seed % 3]
    image = Image.new("L", shape[::-1], 235)
    draw = ImageDraw.Draw(image)
    font = ImageFont.truetype(str(fonts / f"{name}.ttf"), size)
    for number, line in enumerate(lines):
        draw.text((gap // 2, gap // 2 + number * (size + gap)), line, fill=30, font=font)
    noise = np.random.default_rng(seed).normal(0, 12, shape)
    pixels = np.clip(np.asarray(image, np.float64) + noise, 0, 255).astype(np.float32) / 127.5 - 1
    return np.repeat(pixels[None], 3, 0)


def lines(count: int, model: bytes) -> Samples:
    """Return images of single lines of text, and their texts."""
    about = {entry.key: entry.value for entry in load(model).metadata_props}
    characters = about["character"].splitlines()
    letters = ["", *characters, " "]
    lines = sorted(_sentences(count), key=len)

    def answers(output: Floats) -> _Answers:
        return [_spelt(letters, indices) for indices in output.argmax(2)]

    batches = []
    for batch in _in_batches(list(enumerate(lines))):
        width = 18 * max(len(line) for _, line in batch) + 8
        batches.append(np.stack([_drawn([line], (48, width), 28, 8, number) for number, line in batch]))
    return Samples(batches, answers, [line.replace(" ", "") for line in lines])


def _spelt(letters: Sequence[str], indices: npt.NDArray[np.int64]) -> str:
    """Spell a row of most likely characters, without spaces: repetitions are one, the first of all letters is none."""
    firsts = indices[np.concatenate([[True], indices[1:] != indices[:-1]])]
    return "".join(letters[index] for index in firsts).replace(" ", "")


def pages(count: int) -> Samples:
    """Return pages, and their numbers of lines."""
    choose = np.random.default_rng(1)
    truth = [int(choose.integers(1, 8)) for _ in range(count)]
    lines = iter(_sentences(sum(truth)))
    pages = np.stack([_drawn(list(islice(lines, n)), (384, 512), 20, 24, seed) for seed, n in enumerate(truth)])
    return Samples([page[None] for page in pages], _regions, truth)


def _regions(output: Floats) -> _Answers:
    """Count the connected regions that are likely to be text, specks aside."""
    counts = []
    for page in output[:, 0]:
        regions, count = ndimage.label(page > _LIKELY)
        sizes = np.bincount(regions.ravel(), minlength=count + 1)[1:]
        counts.append(int((sizes >= _SPECK).sum()))
    return counts


_LIKELY, _SPECK = 0.3, 64
