"""How sums over rows vary: rows, classes, clusters; simulated data sets, and corrections over groups."""
