"""Means over rows: differences in the large, proper scores, accuracy."""
