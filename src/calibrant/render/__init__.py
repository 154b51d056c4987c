"""Texts and pages of plain results: nothing here estimates anything."""
