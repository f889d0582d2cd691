"""A unit's library that was just compiled, tried in a process of its own: it may be anything, and do anything.

The process is ``python -m openmxu_sim.engines.compiled.trial LIBRARY CONFIG``. It ends with 0 if a known product has
the right bits, and with 3 if it has others.
"""

import json
import sys
from pathlib import Path

from openmxu.config import MxuConfig
from openmxu_sim.engines import compiled
from openmxu_sim.engines.compiled.model import Model
from openmxu_sim.engines.known_answer import difference, question
from openmxu_sim.engines.library import OTHER_BITS

__all__ = ["main"]


def main(library: str, config: str) -> None:
    """Run the known product, and end the process."""
    unit = MxuConfig.of_dict(json.loads(config))
    try:
        model = Model(Path(library).read_bytes())
    except (OSError, AttributeError) as error:
        sys.exit(str(error))
    try:
        wrong = difference(unit, compiled.run_model(model, question(unit)))
    except RuntimeError as error:  # it hangs
        wrong = str(error)
    print(wrong, file=sys.stderr)
    sys.exit(OTHER_BITS if wrong else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
