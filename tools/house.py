"""The house: its floors, their rooms, and the tests of each room.

This is the one place where a room is named. tests/test_architecture.py checks every import against it, and
`python tools/house.py` writes the table in CONTRIBUTING.md from it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))

import shown  # noqa: E402


@dataclass(frozen=True)
class Room:
    """A module of the package, or a folder of modules.

    `tests` are files of `tests/`, without `test_` and `.py`. A folder has floors `inside`: each floor names its
    modules, the lowest floor first. The folder's `__init__` is above its modules and below what is outside.
    """

    name: str
    holds: str
    tests: str
    inside: tuple[str, ...] = ()

    @property
    def floors(self) -> tuple[tuple[str, ...], ...]:
        """The floors inside, each with its modules; `*` stands for the modules that no other floor names."""
        named = {name for floor in self.inside for name in floor.split()}
        modules = sorted(path.stem for path in ROOT.joinpath("src", "calibrant", self.name).glob("*.py"))
        others = tuple(name for name in modules if name not in named and name != "__init__")
        return tuple(others if floor == "*" else tuple(floor.split()) for floor in self.inside)


# The lowest floor first. A module imports only from floors below its own, so rooms of one floor do not import each
# other. The modules of a folder follow the floors inside the folder.
HOUSE = (
    (
        Room("cached", "properties that are computed once, without a lock", "concurrency"),
        Room("lazy", "names of packages, imported at their first use", "architecture"),
        Room(
            "faults",
            "what can be wrong with an argument, as values: faults, their facts and the likely mistakes",
            "inputs",
        ),
        Room("extras", "what to type to install an extra", "extras"),
        Room("progress", "how far a long computation is", "small_inputs"),
        Room("process", "the process of the command: its standard streams, and its end by a signal", "cli_process"),
    ),
    (Room("errors", "the one family of errors", "architecture"),),
    (
        Room("grid", "the frozen cell edges", "sketch"),
        Room("memory", "the memory that one input may take", "memory"),
        Room(
            "kernels",
            "loops over rows and tables: in NumPy for small inputs, compiled for large ones, and as torch operations",
            "kernels masked_logits small_inputs concurrency tensor_rows tensor_cells",
            (
                "loading reference_lookup",
                "compiled reference_tables reference_classes reference_clusters",
                "bits blocks reference",
                "bin_lookup",
                "host host_classes host_clusters host_tables tensor_rows",
                "dispatch sorting tensors",
                "tensor_cells",
            ),
        ),
        Room("mistakes", "the usual mistakes behind a rejected input", "inputs"),
        Room("wording", "the sentences for a fault and its facts", "inputs"),
        Room("writing", "files that are written: complete or not at all", "writing"),
    ),
    (Room("arrays", "arrays of any library as NumPy's", "inputs"),),
    (Room("weights", "integer weights, units of weights and effective sample sizes", "weights laws"),),
    (Room("inputs", "the boundary, where arguments are checked and normalised once", "inputs"),),
    (
        Room("column_options", "which columns of a file the caller asks for", "files"),
        Room("grouping", "the groups of rows: their names in order, and the rows of each", "groups by"),
    ),
    (
        Room("results", "the values that are returned", "report"),
        Room("panels", "the values behind the further pictures of a profile", "profiles"),
        Room("scores", "proper scores, of tables and of single rows", "numbers"),
    ),
    (
        Room("plottable", "what a picture needs of a report and of a comparison", "plot"),
        Room("rejections", "why a reading pass stopped at a row", "inputs"),
        Room("plain", "results as plain Python values that are strict JSON", "report"),
    ),
    (Room("notions", "which event is judged, in one read of the N x C numbers", "laws"),),
    (Room("table_arrow", "the columns of a table in Arrow, every number checked", "table_arrow"),),
    (Room("table", "`ReliabilityTable`: sorted, free of ties, additive", "laws"),),
    (Room("units", "tables in the units of weights that results are computed in", "weights"),),
    (
        Room(
            "clusters",
            "rows in clusters: their labels as hashes, additive sums over buckets of clusters; plain arrays",
            "clusters",
            ("cells labels", "sums", "events storage"),
        ),
    ),
    (
        Room(
            "sketch",
            "`CalibrationSketch`: cells and exact sums in constant memory; bytes, JSON, Arrow",
            "sketch sketch_clusters certified",
            ("sums", "content units", "head", "cells", "storage", "stored", "sketch", "as_table"),
        ),
    ),
    (
        Room(
            "estimators",
            "pure mathematics: from a table or bins to numbers",
            "smooth smooth_mesh numbers",
            (
                "class_kernel roots cosines roc loess",
                "binned decision_curve kernel_errors lipschitz smooth smooth_mesh cumulative regression",
                "isotonic",
                "certified sweep",
            ),
        ),
    ),
    (
        Room(
            "sampling",
            "cells, replicates, null laws and intervals, computed from a table or bins, and a level",
            "inference bands simultaneous verdict class_rows heterogeneity",
            (
                "brownian outcomes class_rows groups intervals null base_rates",
                "cells",
                "binned resampling cumulative heterogeneity",
                "area decision_curve",
                "smooth corp null_closed_form simultaneous loess",
                "curves means variational",
                "line ratio",
                "verdict",
                "classwise paired rows",
                "unpaired",
            ),
        ),
    ),
    (
        Room(
            "clustered",
            "rows in clusters: intervals, laws under calibration and tests, from sums over buckets of clusters",
            "clustered clustered_laws clustered_slow",
            (
                "sums",
                "bins corp cumulative means smooth",
                "decision_curve line null loess",
                "closed_form curves",
                "pairs verdict",
                "classwise rows",
                "unpaired",
            ),
        ),
    ),
    (
        Room(
            "measures",
            "one file for each measure: its definition, public function, interval, null law, label and meaning; "
            "`listed` lists them, `event` and `context` hold what they share",
            "measures clinical_numbers numbers laws decision_curves class_scores table_functions top_k variational roc "
            "ici",
            (
                "event histograms",
                "context",
                "by_cluster",
                "arguments measure",
                "gap",
                "*",
                "oe_ratio profiles rmsce thresholded",
                "mce murphy",
                "estimates listed",
                "decision_curve",
                "panels",
            ),
        ),
    ),
    (
        Room(
            "inference",
            "what users call: tests of calibration, noise floors, the bootstrap; the findings of a report, as facts; "
            "decisions about a tolerance",
            "hypotheses multicalibration clustered_inference findings decision",
            (
                "decision moments rows",
                "replicates",
                "findings floor hosmer_lemeshow hypotheses statistic t_cal",
                "multicalibration",
            ),
        ),
        Room(
            "files",
            "files into arrays and sketches; the logs of evaluation harnesses into tables",
            "files files_json files_local files_logs files_roles files_sql outcomes streaming",
            (
                "sheet_reader",
                "expressions local",
                "agreement arrow_messages background cuts paths predictions roles",
                "cell_formats choices columns zipped",
                "harness inspect_log values",
                "groups json_shapes matching sql",
                "arrays engine logs sketches",
                "stored text cells held likely",
                "ids suggestions",
                "sources",
                "by chunks",
                "reading",
            ),
        ),
        Room(
            "frames",
            "tables in engines into sketches",
            "frames frames_clusters",
            ("cell_keys columns", "hashes rows", "cells", "bucket_queries faults", "buckets", "api"),
        ),
        Room(
            "render",
            "results as text and pages",
            "html page report terminal markdown methods",
            ("style", "words", "tables", "comparison floor drawing methods", "panels", "terminal html", "markdown"),
        ),
    ),
    (
        Room(
            "plot",
            "matplotlib figures of results",
            "plot",
            ("canvas", "marks", "curves decisions diagrams forest models multiples stacked"),
        ),
    ),
    (
        Room("comparison", "`Comparison`, the value", "compare"),
        Room(
            "judging", "what is judged: tables, bins and means, from one read of the data", "groups evaluate_clusters"
        ),
        Room("report", "`Report`, the value", "report"),
    ),
    (Room("reporting", "from what is judged to a report: estimates, findings, decision", "report bands"),),
    (
        Room("evaluation", "`evaluate`: from predictions, tables and sketches to a report", "groups"),
        Room("pairing", "comparisons of models that were read, of all rows and of each group", "compare compare_files"),
    ),
    (Room("comparing", "`compare`: from predictions and sketches to a comparison", "compare compare_clusters"),),
    (Room("__init__", "the names of the package", "architecture"),),
    (
        Room(
            "torch",
            "torchmetrics metrics",
            "torch torch_classes torch_sketch torch_golden torch_distributed torch_drop_in torch_uncertainty",
            (
                "arguments tracing",
                "sharing",
                "base",
                "bins cells sums",
                "tables",
                "binned classwise functions proper smooth",
                "report",
            ),
        ),
        Room("compat", "shells with other libraries' signatures", "compat", ("bensemble pyhealth triples",)),
        Room("sklearn", "scikit-learn's displays and scorers", "sklearn", ("arguments labels", "display scorer")),
    ),
    (
        Room(
            "cli",
            "the command: its options and their order, the messages for wrong usage and bad data, completion by the "
            "TAB key",
            "cli cli_clusters cli_usage cli_completion cli_console cli_output cli_configuration",
            (
                "browser conditions configuration console picture",
                "usage",
                "completion options",
                "checks gates outcomes output shared spark",
                "errors",
                "loading",
                "commands",
                "__main__",
            ),
        ),
    ),
)


def table() -> str:
    """Return the table of rooms, in Markdown."""
    lines = ["| floor | room | what it holds | its tests |", "|---|---|---|---|"]
    floors = [floor for floor in HOUSE if floor[0].name != "__init__"]
    for height, floor in enumerate(floors, start=1):
        for room in floor:
            name = f"`{room.name}/`" if room.inside else f"`{room.name}`"
            tests = " ".join(f"tests/test_{test}.py" for test in room.tests.split())
            lines.append(f"| {height} | {name} | {room.holds} | `{tests}` |")
    return "\n".join(lines)


if __name__ == "__main__":
    shown.write({"house.md": table()})
