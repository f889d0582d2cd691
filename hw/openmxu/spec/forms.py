"""Forms of the arithmetic: other gates for the same bits. The target of a design chooses one; see ``openmxu list``."""

from collections.abc import Mapping

AREA, SPEED, FPGA = "area", "speed", "fpga"

FORMS: Mapping[str, str] = {
    AREA: "the fewest gates: one adder rounds, each step of a normalisation looks for leading zeros, carry-save rows",
    SPEED: "the shortest paths: both results of a rounding beside each other, leading zeros anticipated",
    FPGA: "the fewest lookup tables: as for area, but sums in trees of adders, which have carry logic of their own",
}
"""The forms, and how each is built. Latencies and bits are the same in all of them."""


def form_of(platform: object) -> str:
    """The form that a component takes under a platform: the platform's ``form``, or the form for area."""
    form: str = getattr(platform, "form", AREA)
    return check_form(form)


def check_form(form: str) -> str:
    """Return ``form``, or raise :exc:`ValueError` if it is not one of :data:`FORMS`."""
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}, not {form!r}")
    return form
