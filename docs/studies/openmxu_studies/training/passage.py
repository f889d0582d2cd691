"""Networks trained in one arithmetic and used in another, through files of the usual kinds."""

import io
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import safetensors.numpy
import torch

from openmxu_sim.onnx import Network
from openmxu_sim.onnx.runtime import ModelProto, Session, numpy_helper
from openmxu_studies.training.plan import STEPS, Case
from openmxu_studies.training.record import Passage
from openmxu_studies.training.tasks import DigitsTask
from openmxu_studies.training.trial import learn, unit

_Parameters = Mapping[str, torch.Tensor]

_UNIT, _PLAIN = Case("bf16"), Case(None)
_NAMES = {_UNIT: "bf16 unit", _PLAIN: "PyTorch's fp32"}


def _torch(parameters: _Parameters) -> _Parameters:
    file = io.BytesIO()
    torch.save(parameters, file)
    file.seek(0)
    result: _Parameters = torch.load(file, weights_only=True)
    return result


def _numpy(parameters: _Parameters) -> _Parameters:
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **{name: tensor.numpy() for name, tensor in parameters.items()})
    file.seek(0)
    with np.load(file) as kept:
        return {name: torch.from_numpy(kept[name]) for name in kept.files}


def _safetensors(parameters: _Parameters) -> _Parameters:
    packed = safetensors.numpy.save({name: tensor.numpy() for name, tensor in parameters.items()})
    return {name: torch.from_numpy(array) for name, array in safetensors.numpy.load(packed).items()}


FILES: Mapping[str, Callable[[_Parameters], _Parameters]] = {
    "torch.save": _torch,
    "npz": _numpy,
    "safetensors": _safetensors,
}
"""Functions that write parameters to a file and read them again, by kind of file."""


def passages(source: str, steps: int) -> list[Passage]:
    """Train on a bf16 unit and use the network without it, and the other way round; and go on training there."""
    torch.set_num_threads(1)
    results = []
    for here, there in ((_UNIT, _PLAIN), (_PLAIN, _UNIT)):
        learned = _learned(here, source, steps)
        before = _score(learned, here)
        kept = {file: through(learned.model.state_dict()) for file, through in FILES.items()}
        after = {file: _score_of(parameters, there, source) for file, parameters in kept.items()}
        written = _export(learned)
        kept["ONNX"] = {init.name: torch.tensor(numpy_helper.to_array(init)) for init in written.graph.initializer}
        after["ONNX"] = _infer(written, there, learned)
        for file, parameters in kept.items():
            changed = _changed(learned, parameters)
            results.append(Passage(_NAMES[here], file, _NAMES[there], *changed, before, after[file]))
        results.append(_going_on(here, there, source, steps))
    return results


def _learned(case: Case, source: str, steps: int) -> DigitsTask:
    learned = DigitsTask(0, source)
    learn(learned, case, steps, unit(case))
    return learned


def _score(learned: DigitsTask, case: Case) -> float:
    with unit(case), torch.no_grad():
        return learned.score()


def _score_of(parameters: _Parameters, case: Case, source: str) -> float:
    """Return the score of another network that takes these parameters."""
    other = DigitsTask(1, source)
    other.model.load_state_dict(parameters)
    return _score(other, case)


def _changed(learned: DigitsTask, kept: _Parameters) -> tuple[int, int]:
    """Return the number of parameters that have other bits now, and the number of all."""
    parameters = learned.model.state_dict()
    pairs = [(tensor.view(torch.int32), kept[name].view(torch.int32)) for name, tensor in parameters.items()]
    return sum(int((one != other).sum()) for one, other in pairs), sum(one.numel() for one, _ in pairs)


def _going_on(here: Case, there: Case, source: str, steps: int) -> Passage:
    """Train the first half of the steps here, the other half there."""
    learned = _learned(here, source, steps // 2)
    before = _score(learned, here)
    kept = _torch(learned.model.state_dict())
    changed = _changed(learned, kept)
    learned.model.load_state_dict(kept)
    learn(learned, there, steps - steps // 2, unit(there))
    after = _score(learned, there)
    return Passage(_NAMES[here], "torch.save", f"{_NAMES[there]}, trained on", *changed, before, after)


def _export(learned: DigitsTask) -> ModelProto:
    """Export the network by PyTorch itself, for any number of images."""
    learned.model.eval()
    images = learned.images[:2]
    program = torch.onnx.export(learned.model, (images,), dynamo=True, dynamic_shapes=({0: "images"},), verbose=False)
    assert program is not None, "it was not told to write a file"
    model: ModelProto = program.model_proto
    return model


def _infer(model: ModelProto, case: Case, learned: DigitsTask) -> float:
    """Return the accuracy of an exported network: on the unit, or by onnxruntime."""
    images, labels = (tensor[learned.train :].numpy() for tensor in (learned.images, learned.labels))
    name = model.graph.input[0].name
    if case.operand is None:
        [logits] = Session(model).run({name: images}).values()
    else:
        [logits] = Network(model, operand=case.operand, threads=1).run({name: images}).values()
    return float((logits.argmax(1) == labels).mean())


def pass_all(source: str) -> list[dict[str, Any]]:
    """Return :func:`passages` as plain data."""
    return [asdict(passage) for passage in passages(source, STEPS["digits"])]
