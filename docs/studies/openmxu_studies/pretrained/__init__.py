"""Networks that others trained and published, on units of several formats: their answers, and those that change.

::

    ask       each network on each unit
    samples   their inputs, and the right answers
    answers   the record of their answers, and its tables

Nothing of them is part of this project; their files are downloaded when a study runs.
"""
