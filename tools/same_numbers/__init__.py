"""The results of everything public, to compare those of two versions; `__main__` says how to run it."""
