"""``python -m openmxu``: the same as ``openmxu``."""

import sys

from openmxu.cli import main

sys.exit(main())
