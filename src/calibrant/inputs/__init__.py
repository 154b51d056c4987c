"""The boundary: arrays, predictions, groups, weights and the event that is evaluated, checked and normalised once."""
