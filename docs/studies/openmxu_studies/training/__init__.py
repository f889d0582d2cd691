"""Two networks trained with the arithmetic of different units: accuracy beside area and cycles.

::

    plan      which cases, seeds and steps
      study     a process, or a worker of a cluster, for each case; the cache keeps each trial
        trial     one network trained once: networks and data below, the unit of openmxu_sim.torch around
        passage   what is trained in one arithmetic and used in another, through files
      record    what came of it; report: its tables; plot: its pictures

Neither plans nor records need PyTorch.
"""
