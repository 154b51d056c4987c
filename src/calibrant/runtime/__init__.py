"""The process around the numbers: values computed once, names imported at their first use, progress, streams."""
