"""Pictures and pages as functions of plain results: nothing here estimates anything."""
