"""The only compiled loops: readable references, fast twins for the host, and the code that runs them in blocks."""
