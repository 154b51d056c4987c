"""From a table to a number or a curve: one file per family."""
