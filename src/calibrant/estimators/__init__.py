"""Compute numbers and curves from tables: one file per family."""
