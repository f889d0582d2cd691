"""The commands of this package; entry points name them."""

from openmxu_sim.commands.draw_wave import add_wave
from openmxu_sim.commands.multiply import add_matmul
from openmxu_sim.commands.run_accelerator import add_compile, add_run
from openmxu_sim.commands.run_checks import add_bench, add_demo, add_verify
from openmxu_sim.commands.run_networks import add_infer
from openmxu_sim.commands.run_studies import add_accuracy, add_roofline, add_study
from openmxu_sim.commands.unit_options import sections

__all__ = [
    "add_accuracy",
    "add_bench",
    "add_compile",
    "add_demo",
    "add_infer",
    "add_matmul",
    "add_roofline",
    "add_run",
    "add_study",
    "add_verify",
    "add_wave",
    "sections",
]
