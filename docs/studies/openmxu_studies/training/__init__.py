"""Two networks trained with the arithmetic of different units: accuracy beside area and cycles.

::

    plan      the cases, seeds and steps
      study     a process, or a worker of a cluster, for each case; the cache keeps each trial
        trial     one network of tasks trained once on data, in the context of a unit of openmxu_sim.torch
        passage   networks trained in one arithmetic and used in another, through files
      record    the outcomes; tables: their tables; training_plot: their pictures

Neither plans nor records need PyTorch.
"""
