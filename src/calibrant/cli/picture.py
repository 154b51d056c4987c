"""The reliability diagram of a result as the bytes of a picture file."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from calibrant.report.comparison import Comparison
    from calibrant.report.report import Report

_DOTS: Final = 200  # to the inch

#: No date and no version in the file, so that the same result gives the same bytes.
_METADATA: Final[dict[str, dict[str, Any]]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}


def draw(result: Report | Comparison, kind: str) -> bytes:
    """Return the picture: of a report its diagram, or the worst classes; of a comparison the diagrams of all models.

    Raises
    ------
    calibrant.errors.MissingDependencyError
        Without matplotlib.
    """
    from calibrant import plot
    from calibrant.plot import canvas
    from calibrant.report.report import Report

    matplotlib = canvas.matplotlib()
    matplotlib.use("agg")  # this process opens no windows
    from matplotlib import pyplot as plt

    picture = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "calibrant"}):  # the ids in the file follow from it
        if not isinstance(result, Report):
            axes: Any = plot.compare(result)
        else:
            axes = plot.classwise(result)[0] if result.diagram is None else plot.reliability_diagram(result)
        figure = axes.figure
        figure.savefig(picture, format=kind, dpi=_DOTS, metadata=_METADATA[kind])
        plt.close(figure)
    return picture.getvalue()
