"""How well scores separate events from non-events."""
