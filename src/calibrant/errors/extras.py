"""What to type to install an extra, for the way in which this calibrant was installed."""

from __future__ import annotations

import json
import os
import shlex
import sys
from typing import Any


def install_command(extra: str) -> str:
    """Return the command that installs an extra of calibrant where this process finds packages.

    An installation from a folder, an archive or a repository has a record of its source, ``direct_url.json`` (PEP 610).
    The command then names this source; a package index may have another calibrant or none.
    """
    return f"{_pip()} install {_requirement(extra, _source())}"


def package_command(package: str) -> str:
    """Return the command that installs another package for this Python."""
    return f"{_pip()} install {package}"


def _pip() -> str:
    """Return how to call the pip of this Python; the one that the shell finds may install elsewhere."""
    import shutil
    from importlib.util import find_spec

    found = shutil.which("pip")
    is_ours = found is not None and os.path.dirname(found) == os.path.dirname(sys.executable)
    return "pip" if is_ours or not find_spec("pip") else f"{_quoted(sys.executable)} -m pip"


def _source() -> dict[str, Any]:
    """Return the record of the source, or an empty one."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        text = distribution("calibrant").read_text("direct_url.json")
        record = json.loads(text or "{}")
    except (PackageNotFoundError, OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and isinstance(record.get("url"), str) else {}


def _requirement(extra: str, source: dict[str, Any]) -> str:
    """Return the argument of ``pip install``, quoted for the shell."""
    from urllib.request import url2pathname

    url, plain = source.get("url", ""), f"calibrant[{extra}]"
    path = url2pathname(url.removeprefix("file://")) if url.startswith("file://") else None
    if "dir_info" in source and path is not None and os.path.isdir(path):
        return "-e " * bool(source["dir_info"].get("editable")) + _quoted(f"{path}[{extra}]")
    part = f"#subdirectory={source['subdirectory']}" if source.get("subdirectory") else ""
    if "vcs_info" in source:
        version = source["vcs_info"]
        return _quoted(f"{plain} @ {version['vcs']}+{url}@{version['commit_id']}{part}")
    if "archive_info" in source and (path is None or os.path.isfile(path)):
        return _quoted(f"{plain} @ {url}{part}")
    return _quoted(plain)


def _quoted(word: str) -> str:
    """Return a word in the quotes of the system's shells."""
    return f'"{word}"' if os.name == "nt" else shlex.quote(word)
