"""The only compiled loops: readable references, their fast twins for the host, and what runs them in blocks."""
