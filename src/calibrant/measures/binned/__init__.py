"""Errors over bins of the score."""
