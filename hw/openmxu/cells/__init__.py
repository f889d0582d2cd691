"""Libraries of cells: functions, areas, delays and energies in Liberty, shapes in LEF."""
