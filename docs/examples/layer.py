"""Take a layer out of Magika, for `openmxu area --layer magika.npz`: its convolution, as a product of matrices."""

from pathlib import Path

import numpy as np

from openmxu_sim.onnx.runtime import Session, ValueInfoProto, load, numpy_helper
from openmxu_studies.pretrained.ask import MAGIKA

ROWS = 8192
"""Of the matrix of activations, the first ones."""


def main(files: int = 64) -> tuple[int, ...]:
    """Write magika.npz here, and give the shapes of both matrices."""
    content, samples = MAGIKA.fetch(files)
    model = load(content)
    [layer] = (node for node in model.graph.node if node.op_type == "Conv")
    [kernel] = (numpy_helper.to_array(each) for each in model.graph.initializer if each.name == layer.input[1])
    model.graph.output.append(ValueInfoProto(name=layer.input[0]))
    given = Session(model).run({"bytes": samples.batches[0]})[layer.input[0]]
    # (sample, channel, place, 1): a row for each place of a sample, the kernel's window of all channels.
    outputs, channels, length, _ = kernel.shape
    windows = np.lib.stride_tricks.sliding_window_view(given[..., 0], length, axis=2)
    activations = windows.transpose(0, 2, 1, 3).reshape(-1, channels * length)[:ROWS]
    weights = kernel.reshape(outputs, channels * length).T
    np.savez(Path("magika.npz"), activations=activations, weights=weights)
    print(f"activations {activations.shape}, {np.mean(activations == 0):.0%} of them 0; weights {weights.shape}")
    return (*activations.shape, *weights.shape)


if __name__ == "__main__":
    main()
