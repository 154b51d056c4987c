"""``python -m calibrant.cli``."""

from calibrant.cli.commands import main

main(prog_name="calibrant")
