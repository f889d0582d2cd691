"""The process that cocotb's runner runs in: ``python -m openmxu_sim.cosim.child SPEC``.

The runner looks for programs on the PATH of its own process, hands that process's environment on, and ends
it when a test fails. A process of its own keeps all that away from the caller.
"""

import json
import sys
from pathlib import Path

import cocotb_tools.config
from cocotb_tools.runner import get_runner


def main(spec_file: str) -> int:
    """Build or run as the file says; returns an exit code."""
    spec = json.loads(Path(spec_file).read_text())
    if "cocotb" in spec:
        # The runner writes these into a makefile, which cannot hold the spaces that the true paths may have.
        cocotb_tools.config.libs_dir = Path(spec["cocotb"], "libs")
        cocotb_tools.config.share_dir = Path(spec["cocotb"], "share")
    runner = get_runner(spec["simulator"])
    try:
        getattr(runner, spec["action"])(**spec["arguments"])
    except RuntimeError as error:  # the runner's word for a program that failed
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
