"""Cells on rows: netlists of cells, trees of buffers, places."""
