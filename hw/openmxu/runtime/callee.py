"""The other side of :func:`openmxu.runtime.process.call`: ``python -m openmxu.runtime.callee MODULE FUNCTION``.

The arguments come as JSON.
"""

import json
import sys
from dataclasses import asdict, is_dataclass
from importlib import import_module
from operator import attrgetter


def main(module: str, function: str) -> None:
    """Call the function and write its result or error, as JSON, as the last line of standard output."""
    try:
        result = attrgetter(function)(import_module(module))(*json.load(sys.stdin))
        reply = {"result": asdict(result) if is_dataclass(result) and not isinstance(result, type) else result}
    except Exception as error:
        reply = {"error": str(error) or type(error).__name__}
    print("\n" + json.dumps(reply), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
