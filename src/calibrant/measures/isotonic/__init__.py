"""The isotonic fit, and what follows from it."""
