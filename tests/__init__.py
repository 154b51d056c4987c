"""The tests: a folder for each package, and those of the whole."""
