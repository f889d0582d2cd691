"""Fetch Magika, which tells kinds of files, and pack some files for it: a model and its inputs for `openmxu infer`."""

from pathlib import Path

import numpy as np

from openmxu_sim.studies.packages import from_pypi
from openmxu_sim.studies.pretrained.samples import files

MODEL = "magika/models/standard_v3_3/model.onnx"
OTHERS = ("magika/models/standard_v3_3/config.min.json", "magika/config/content_types_kb.min.json")


def main(count: int = 128) -> int:
    """Write magika.onnx and files.npz here, and give how many files there are."""
    model, config, kinds = from_pypi("magika==1.0.3", [MODEL, *OTHERS])
    Path("magika.onnx").write_bytes(model)
    packed = np.concatenate(files(count, config, kinds).batches)
    np.savez("files.npz", bytes=packed)
    print(f"magika.onnx, and {len(packed)} files of this Python in files.npz")
    return len(packed)


if __name__ == "__main__":
    main()
