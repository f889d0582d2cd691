"""The old name of :mod:`openmxu.area`, for one more release."""

import warnings

from openmxu.area import *  # noqa: F403
from openmxu.area import __all__ as __all__

warnings.warn("openmxu.synth is openmxu.area now, and goes with the next release", DeprecationWarning, stacklevel=2)
