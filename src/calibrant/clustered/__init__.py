"""Inference from rows in clusters: intervals, laws under calibration and tests, from sums over buckets of clusters."""
