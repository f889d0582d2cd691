"""Trial of a unit's library just compiled, in a process of its own: it may be anything, and do anything.

The process is ``python -m openmxu_sim.engines.compiled.try_unit LIBRARY CONFIG``. It ends with
:data:`~openmxu_sim.engines.library.RIGHT` if a known product has the right bits, and with 3 if it has others.
"""

import json
import sys
from pathlib import Path

from openmxu.spec.config import MxuConfig
from openmxu_sim.engines import compiled
from openmxu_sim.engines.compiled.model import Model
from openmxu_sim.engines.known_answer import difference, question
from openmxu_sim.engines.library import OTHER_BITS, RIGHT


def main(library: str, config: str) -> None:
    """Run the known product; end the process where it is wrong."""
    unit = MxuConfig.of_dict(json.loads(config))
    try:
        model = Model(Path(library).read_bytes())
    except (OSError, AttributeError) as error:
        sys.exit(str(error))
    try:
        wrong = difference(unit, compiled.run_model(model, question(unit)))
    except RuntimeError as error:  # it hangs
        wrong = str(error)
    if wrong:
        print(wrong, file=sys.stderr)
        sys.exit(OTHER_BITS)
    print(RIGHT)


if __name__ == "__main__":
    main(*sys.argv[1:])
