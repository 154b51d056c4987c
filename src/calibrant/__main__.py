"""``python -m calibrant``."""

from calibrant.cli.commands import main

main(prog_name="calibrant")
