"""The only loops: readable references, compiled versions for the host, and the code that runs them in blocks."""
