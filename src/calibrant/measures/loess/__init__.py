"""The local fit of the outcome on the score."""
