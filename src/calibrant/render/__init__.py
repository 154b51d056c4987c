"""Documents of results and their writers: nothing here estimates anything."""
