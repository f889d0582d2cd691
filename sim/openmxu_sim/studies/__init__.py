"""What the unit's arithmetic and its streams are worth: errors of each precision, and what bf16 in memory brings."""

from openmxu_sim.studies.accuracy import Accuracy, measure
from openmxu_sim.studies.layers import Layer, Machine, Roofline, roofline

__all__ = ["Accuracy", "Layer", "Machine", "Roofline", "measure", "roofline"]
