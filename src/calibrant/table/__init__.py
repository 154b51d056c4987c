"""The reliability table: its Arrow form, its units, its grid."""

from typing import TYPE_CHECKING

from calibrant.runtime.cached import names_of

if TYPE_CHECKING:
    from calibrant.table.reliability_table import GridCells, ReliabilityTable, cell_sums

__all__ = [
    "GridCells",
    "ReliabilityTable",
    "cell_sums",
]

__getattr__, __dir__ = names_of(__name__, {"calibrant.table.reliability_table": __all__})
