"""The old name of a package stays for one release."""

import importlib

import pytest

from openmxu import area


def test_the_old_name_still_works() -> None:
    with pytest.warns(DeprecationWarning, match="openmxu.synth is openmxu.area now"):
        synth = importlib.import_module("openmxu.synth")
    assert synth.report is area.report
    assert synth.__all__ == area.__all__
