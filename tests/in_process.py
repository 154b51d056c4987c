"""The command, run in this process."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner

from calibrant.cli import main


def run(*args: object, columns: int = 80, stdin: str | bytes | None = None) -> tuple[int, str, str]:
    """Run the command in this process, returning status, standard output and standard error."""
    words, environment = [str(arg) for arg in args], {"COLUMNS": str(columns)}
    result = CliRunner().invoke(main, words, input=stdin, prog_name="calibrant", env=environment)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def succeed(*args: object, **options: Any) -> tuple[str, str]:
    """Run the command, which must end with status 0, and return standard output and standard error."""
    status, out, err = run(*args, **options)
    assert status == 0, err
    return out, err


def fail(*args: object, status: int = 1, **options: Any) -> str:
    """Run the command, which must end with this status, and return standard error."""
    found, _, err = run(*args, **options)
    assert found == status, err
    return err


def json_of(*args: object, **options: Any) -> dict[str, Any]:
    """Run the command, which must succeed, and return the JSON that it writes to standard output."""
    found: dict[str, Any] = json.loads(succeed(*args, "--json", "-", **options)[0])
    return found
