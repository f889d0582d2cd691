"""Fetch Magika, which tells kinds of files, and pack some files for it: a model and its inputs for `openmxu infer`."""

from pathlib import Path

import numpy as np

from openmxu_studies.pretrained.ask import MAGIKA


def main(count: int = 128) -> int:
    """Write magika.onnx and files.npz here, and give how many files there are."""
    model, samples = MAGIKA.fetch(count)
    Path("magika.onnx").write_bytes(model)
    np.savez("files.npz", bytes=np.concatenate(samples.batches))
    print(f"magika.onnx, and {len(samples.truth)} files of this Python in files.npz")
    return len(samples.truth)


if __name__ == "__main__":
    main()
