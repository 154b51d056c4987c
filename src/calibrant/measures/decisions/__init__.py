"""What is gained by acting on a score above a threshold."""
