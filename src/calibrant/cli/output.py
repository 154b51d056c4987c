"""What the command writes: the report or its JSON, a page, and a progress bar while it works."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from calibrant.comparison import Comparison
    from calibrant.files import FileRows
    from calibrant.render.terminal import Style
    from calibrant.report import Report

_PATIENCE: Final = 1.0  # seconds before a progress bar appears


def write(result: Report | Comparison, predictions: FileRows, options: Mapping[str, Any]) -> None:
    """Write a result to wherever the options say: the terminal, a file of JSON, a page."""
    from calibrant.render import comparison, terminal

    summary = result.to_dict()
    sources = {"files": list(predictions.paths), "columns": dict(predictions.sources), "where": options["where"]}
    used = predictions.described()
    paths = predictions.paths
    title = _title(paths)
    render = comparison.render if "pairs" in summary else terminal.render
    write_summary(
        {**summary, "source": sources}, options["json_path"],
        lambda: render(summary, title=title, used=used, style=style()),
    )  # fmt: skip
    if options["html_path"] is not None:
        from calibrant.render import html

        named = {**sources, "files": [Path(path).name for path in paths]}  # of folders a reader has no need
        page = html.page(summary, title=options["title"] or _title(named["files"]), used=used, sources=named)
        target = html.write_page(page, options["html_path"])
        click.echo(f"calibrant: wrote {target} ({len(page.encode()) / 1000:,.0f} kB)", err=True)


def _title(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} … {paths[-1]} ({len(paths)} files)"


def check_targets(predictions: FileRows, options: Mapping[str, Any]) -> None:
    """Raise, before any work is done, where a file that was read would be written over."""
    from calibrant.errors import CalibrantError

    read = [path for path in (*predictions.paths, options.get("targets_file")) if path is not None]
    for name in ("json", "html"):
        target = options[f"{name}_path"]
        if target in (None, "-") or not os.path.exists(target):
            continue
        if any(os.path.samefile(target, path) for path in read):
            msg = f"--{name}: expected a file of its own, got {target}, which holds the predictions; name another"
            raise CalibrantError(msg)


def write_summary(summary: Mapping[str, Any], target: str | None, text: Callable[[], str]) -> None:
    """Write a summary as JSON where that was asked for, and the text to the terminal unless the JSON goes there."""
    if target != "-":
        click.echo(text())
    if target is not None:
        strict = json.dumps(summary, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
        if target == "-":
            click.echo(strict, nl=False)
        else:
            Path(target).write_text(strict, encoding="utf-8", newline="\n")


def style() -> Style:
    """Return what the terminal can show."""
    from calibrant.render import terminal

    encoding = sys.stdout.encoding or "ascii"
    try:
        terminal.GLYPHS.encode(encoding)
        rich = True
    except UnicodeEncodeError:
        rich = False
    return terminal.Style(
        colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ,
        unicode=rich,
        width=shutil.get_terminal_size().columns,
    )


@contextmanager
def progress() -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error, if that is a terminal, from the moment the work has taken a second."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("reading", total=None)

    def step(done: int, total: int) -> None:
        if total:
            bar.update(task, completed=done, total=total)
        else:
            bar.update(task, description="evaluating", total=None)

    timer = threading.Timer(_PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield step
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
