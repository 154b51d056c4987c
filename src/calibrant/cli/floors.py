"""What `calibrant floor` prints: noise floors for each distribution of scores, and the sample size of a tolerance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from calibrant.inference.floor import SCORE_LAWS, NoiseFloor, noise_floor, rows_to_prove
from calibrant.measures import MEASURES
from calibrant.render.blocks import Block, Column, Heading, Notes, Sentence, Table
from calibrant.render.words import number, percent
from calibrant.results import Floor


class ScoreLaw(NamedTuple):
    """What a distribution of scores shows by chance, and how many rows prove that the error is small."""

    name: str
    description: str
    noise: NoiseFloor | None
    rows_to_prove: int | None

    @property
    def floors(self) -> Mapping[str, Floor]:
        """The floors of the measures by name; none without a number of rows."""
        return {} if self.noise is None else self.noise.floors

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain Python values."""
        numbers: dict[str, Any] = {"description": self.description}
        if self.noise is not None:
            floors = {key: {"mean": floor.mean, "upper": floor.upper} for key, floor in self.floors.items()}
            numbers |= {"floors": floors, "rows_for_ece_of_0.01": self.noise.rows_for(0.01)}
        return numbers if self.rows_to_prove is None else numbers | {"rows_to_prove": self.rows_to_prove}


class Floors(NamedTuple):
    """The noise floors at ``n`` rows, and the rows that prove an error below ``prove``, for each distribution."""

    n: int | None
    n_bins: int
    level: float
    n_resamples: int
    rng: int
    prove: float | None
    laws: Sequence[ScoreLaw]

    @classmethod
    def of(cls, n: int | None, prove: float | None, n_bins: int, level: float, n_resamples: int, rng: int) -> Floors:
        """Return the floors for all distributions."""
        laws = []
        for name, (_, _, description) in SCORE_LAWS.items():
            noise = rows = None
            if n is not None:
                noise = noise_floor(n, n_bins, scores=name, level=level, n_resamples=n_resamples, rng=rng)
            if prove is not None:
                rows = rows_to_prove(prove, n_bins, scores=name, level=level, rng=rng)
            laws.append(ScoreLaw(name, description, noise, rows))
        return cls(n, n_bins, level, n_resamples, rng, prove, laws)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the measures by name."""
        return {measure.name: measure.label for measure in MEASURES if measure.name in self.laws[-1].floors}

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain Python values."""
        options = {name: value for name, value in self._asdict().items() if name != "laws"}
        return {**options, "measures": self.labels, "laws": {law.name: law.to_dict() for law in self.laws}}

    def blocks(self) -> list[Block]:
        """Return the floors as blocks for the terminal."""
        notes = [f"{law.name}: scores {law.description}" for law in self.laws]
        if self.n is None:
            return [*self._proof(), Notes([*notes, f"{self.n_bins} bins"])]
        level = percent(self.level)
        rows = [(law.noise.rows_for(0.01), law.name) for law in self.laws if law.noise is not None]
        mean = "The mean ECE of a perfectly calibrated model is 0.01 at about this many rows"
        notes.append(f"{self.n_bins} bins; {level} below: the value that {level} of samples stay below")
        heading = Heading(f"Noise floors at n = {self.n:,}: errors of a perfectly calibrated model")
        return [heading, self._table(), Notes(notes), Sentence(f"{mean}: {_listed(rows)}."), *self._proof()]

    def _table(self) -> Table:
        columns = [Column("measure", list(self.labels.values()))]
        for law in self.laws:
            floors = [law.floors.get(name) for name in self.labels]
            means = ["–" if floor is None else number(floor.mean) for floor in floors]
            uppers = ["–" if floor is None else number(floor.upper) for floor in floors]
            columns += [Column(f"{law.name}: mean", means), Column(f"{law.name}: {percent(self.level)} below", uppers)]
        return Table("floors", columns, "Noise floors")

    def _proof(self) -> list[Sentence]:
        """Return how many rows prove that the error is small; nothing if it was not asked for."""
        rows = [(law.rows_to_prove, law.name) for law in self.laws if law.rows_to_prove is not None]
        if self.prove is None:
            return []
        needed = "About this many rows are needed to show that the ECE of a perfectly calibrated model is below"
        bound = f"the upper {percent(self.level)} confidence bound is below {self.prove:g} in 80 % of samples"
        return [
            Sentence(f"{needed} {self.prove:g}: {_listed(rows)}."),
            Sentence(f"With that many rows, {bound}."),
        ]


def _listed(rows: Sequence[tuple[int, str]]) -> str:
    return ", ".join(f"{count:,} ({name})" for count, name in rows)
