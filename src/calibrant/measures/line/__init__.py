"""The calibration line: a logistic fit of the outcome on the log-odds of the score."""
