"""Errors that a kernel smooths."""
