"""The process around the numbers: frozen dataclasses, values computed once, names imported late, progress, streams."""
