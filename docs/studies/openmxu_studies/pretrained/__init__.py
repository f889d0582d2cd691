"""Networks that others trained and published, on units of several formats: what they find, and what changes.

::

    ask       each network on each unit
    samples   what they are asked, and what would be right
    record    what they said, and its tables

Nothing of them is part of this project; their files are downloaded when a study runs.
"""
