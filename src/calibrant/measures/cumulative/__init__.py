"""Errors of cumulative sums over the sorted scores."""
