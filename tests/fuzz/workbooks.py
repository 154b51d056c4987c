"""Forged workbooks: the extents of their cells, and the counts that they promise, are chosen to hurt.

Each holds the same rows, and one or more lies. A reader refuses it, or reads just these rows.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

ROWS: Final = 60
_EXTENTS: Final = (2, 100, 16_384, 16_385, 65_536, 1_048_576, 1_048_577, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**64)
_COUNTS: Final = (-1, 0, 10**6, 10**8, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**64 - 1, 10**30)
_MAIN: Final = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_OFFICE: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE: Final = "http://schemas.openxmlformats.org/package/2006"


def rows() -> list[tuple[float, int]]:
    """Return the scores and outcomes that every forged workbook holds."""
    rng = np.random.default_rng(1)
    score = rng.random(ROWS).round(6)
    return list(zip(score.tolist(), (rng.random(ROWS) < score).astype(int).tolist(), strict=True))


@dataclass(frozen=True)
class Book:
    """The parts of an .xlsx that a lie may replace."""

    cells: str = field(default_factory=lambda: "".join(_row(k, *row) for k, row in enumerate(rows(), 2)))
    head: str = '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c></row>'
    before: str = ""
    after: str = ""
    strings: str = '<sst {main} count="2" uniqueCount="2"><si><t>score</t></si><si><t>outcome</t></si></sst>'
    styles: str = ""
    sheets: str = '<sheet name="S" sheetId="1" r:id="rId1"/>'
    doctype: str = ""
    members: tuple[tuple[str, bytes], ...] = ()

    def data(self) -> bytes:
        """Return the file."""
        links = {"rId1": "worksheets/sheet1", "rId2": "sharedStrings", "rId3": "styles"}
        kinds = {"rId1": "worksheet", "rId2": "sharedStrings", "rId3": "styles"}
        relations = "".join(
            f'<Relationship Id="{key}" Type="{_OFFICE}/{kinds[key]}" Target="{links[key]}.xml"/>' for key in links
        )
        start = f'<Relationships xmlns="{_PACKAGE}/relationships">'
        texts = {
            "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"/>',
            "_rels/.rels": f'{start}<Relationship Id="rId1" Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/>'
            "</Relationships>",
            "xl/workbook.xml": f'<workbook {_MAIN} xmlns:r="{_OFFICE}"><sheets>{self.sheets}</sheets></workbook>',
            "xl/_rels/workbook.xml.rels": f"{start}{relations}</Relationships>",
            "xl/worksheets/sheet1.xml": f"{self.doctype}<worksheet {_MAIN}>{self.before}<sheetData>{self.head}"
            f"{self.cells}</sheetData>{self.after}</worksheet>",
            "xl/sharedStrings.xml": self.strings.replace("{main}", _MAIN),
            "xl/styles.xml": self.styles or f"<styleSheet {_MAIN}/>",
        }
        return archive([(name, text.encode()) for name, text in texts.items()] + list(self.members))


def archive(members: list[tuple[str, bytes]]) -> bytes:
    """Return members as a zip archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in members:
            target.writestr(name, content)
    return stream.getvalue()


def _row(number: int, *values: Any, column: int = 0) -> str:
    cells = "".join(f'<c r="{letters(column + k)}{number}"><v>{value}</v></c>' for k, value in enumerate(values))
    return f'<row r="{number}">{cells}</row>'


def letters(column: int) -> str:
    """Return the letters of a column, counted from 0."""
    text, column = "", column + 1
    while column > 0:
        column, digit = divmod(column - 1, 26)
        text = chr(65 + digit) + text
    return text


# ---------------------------------------------------------------- lies of an .xlsx

Lie = Callable[[Book, np.random.Generator], Book]


def _pick(rng: np.random.Generator, values: tuple[Any, ...]) -> Any:
    return values[rng.integers(len(values))]


def _far_cell(book: Book, rng: np.random.Generator) -> Book:
    return replace(book, cells=book.cells + _row(_pick(rng, _EXTENTS), 1, column=_pick(rng, _EXTENTS)))


def _far_diagonal(book: Book, rng: np.random.Generator) -> Book:
    step, count = int(rng.integers(1, 200)), int(rng.integers(2, 5_000))
    return replace(book, cells=book.cells + "".join(_row(100 + k * step, 1, column=k) for k in range(count)))


def _far_row(book: Book, rng: np.random.Generator) -> Book:
    return replace(book, cells=f'{book.cells}<row r="{_pick(rng, _EXTENTS[1:])}"><c><v>1</v></c></row>')


def _odd_reference(book: Book, rng: np.random.Generator) -> Book:
    references = (
        "",
        "A",
        "0",
        "A0",
        "a1",
        "ZZZZZZZZ1",
        "A99999999999999999999",
        "1A",
        "A-1",
        "R1C1",
        "\u00c41",
        "A1:B2",
    )
    return replace(book, cells=f'{book.cells}<row><c r="{_pick(rng, references)}"><v>1</v></c></row>')


def _dimension(book: Book, rng: np.random.Generator) -> Book:
    places = ("A1", "B61", "XFD1048576", "ZZZZ4294967295", "A0", "", "A1048577")
    return replace(book, before=f'<dimension ref="{_pick(rng, places)}:{_pick(rng, places)}"/>')


def _string_count(book: Book, rng: np.random.Generator) -> Book:
    counts = f'count="{_pick(rng, _COUNTS)}" uniqueCount="{_pick(rng, _COUNTS)}"'
    return replace(book, strings=book.strings.replace('count="2" uniqueCount="2"', counts))


def _string_index(book: Book, rng: np.random.Generator) -> Book:
    return replace(book, cells=f'{book.cells}<row r="62"><c r="A62" t="s"><v>{_pick(rng, _COUNTS)}</v></c></row>')


def _long_string(book: Book, rng: np.random.Generator) -> Book:
    """Say a long text once, and refer to it from many cells."""
    times, long = int(rng.integers(1_000, 20_000)), "a" * int(rng.integers(1_000, 1_000_000))
    cells = "".join(f'<row r="{k}"><c r="C{k}" t="s"><v>2</v></c></row>' for k in range(62, 62 + times))
    return replace(
        book, cells=book.cells + cells, strings=book.strings.replace("</sst>", f"<si><t>{long}</t></si></sst>")
    )


def _styles(book: Book, rng: np.random.Generator) -> Book:
    counts = [_pick(rng, _COUNTS) for _ in range(3)]
    formats = f'<numFmts count="{counts[0]}"><numFmt numFmtId="{counts[1]}" formatCode="{"0" * 1000}"/></numFmts>'
    cells = book.cells.replace('<c r="A3">', f'<c r="A3" s="{_pick(rng, _COUNTS)}">')
    xfs = f'<cellXfs count="{counts[2]}"><xf numFmtId="{counts[1]}"/></cellXfs>'
    return replace(book, cells=cells, styles=f"<styleSheet {_MAIN}>{formats}{xfs}</styleSheet>")


def _merged(book: Book, rng: np.random.Generator) -> Book:
    ranges = ("A1:XFD1048576", "XFD1048576:A1", "A1:", "A0:B0", "A1:ZZZZ4294967295")
    count = int(rng.integers(1, 1_000))
    return replace(
        book, after=f'<mergeCells count="{2**32}">{f"<mergeCell ref={_pick(rng, ranges)!r}/>" * count}</mergeCells>'
    )


def _formula(book: Book, rng: np.random.Generator) -> Book:
    shared = f'<f t="shared" ref="A1:XFD1048576" si="{_pick(rng, _COUNTS)}">{"(" * int(rng.integers(1, 100_000))}</f>'
    return replace(book, cells=book.cells.replace('<c r="B3">', f'<c r="B3">{shared}'))


def _many_sheets(book: Book, rng: np.random.Generator) -> Book:
    """Name one sheet many times."""
    count = int(rng.integers(2, 3_000))
    return replace(book, sheets="".join(f'<sheet name="S{k}" sheetId="{k}" r:id="rId1"/>' for k in range(count)))


def _deep(book: Book, rng: np.random.Generator) -> Book:
    depth = int(rng.integers(1_000, 300_000))
    return replace(book, after="<x>" * depth + "</x>" * depth * int(rng.integers(2)))


def _entities(book: Book, _rng: np.random.Generator) -> Book:
    """Say the usual bomb of entities."""
    more = "".join(f'<!ENTITY e{k} "{f"&e{k - 1};" * 10}">' for k in range(1, 12))
    doctype = f'<!DOCTYPE x [<!ENTITY e0 "aaaaaaaaaa">{more}]>'
    cells = f'{book.cells}<row r="62"><c r="C62" t="inlineStr"><is><t>&e11;</t></is></c></row>'
    return replace(book, doctype=doctype, cells=cells)


def _number(book: Book, rng: np.random.Generator) -> Book:
    values = ("1e999", "-1e999", "NaN", "", "0x1p3", "1" * 100_000, "1e-999", "\u0661", "1,5", "&#0;")
    kind = _pick(rng, ("", ' t="n"', ' t="b"', ' t="e"', ' t="d"', ' t="str"', ' t="?"'))
    return replace(book, cells=f'{book.cells}<row r="62"><c r="A62"{kind}><v>{_pick(rng, values)}</v></c></row>')


def _bomb(book: Book, rng: np.random.Generator) -> Book:
    return replace(book, members=(("xl/media/image1.png", bytes(int(rng.integers(10**6, 4 * 10**8)))),))


def _cut(book: Book, rng: np.random.Generator) -> Book:
    return replace(book, cells=book.cells[: int(rng.integers(len(book.cells)))] + "<row><c><v")


LIES: Final[tuple[Lie, ...]] = (
    _far_cell,
    _far_diagonal,
    _far_row,
    _odd_reference,
    _dimension,
    _string_count,
    _string_index,
    _long_string,
    _styles,
    _merged,
    _formula,
    _many_sheets,
    _deep,
    _entities,
    _number,
    _bomb,
    _cut,
)


# ---------------------------------------------------------------- other formats that the reader recognises


def _sheet_of_ods(rng: np.random.Generator) -> bytes:
    """Return an .ods whose cells and rows are repeated as often as they say."""
    spaces = 'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    spaces += 'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
    spaces += 'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'
    cell = '<table:table-cell office:value-type="float" office:value="{}"{}/>'
    name = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'
    table = [f"<table:table-row>{name.format('score')}{name.format('outcome')}</table:table-row>"]
    table += [f"<table:table-row>{cell.format(s, '')}{cell.format(y, '')}</table:table-row>" for s, y in rows()]
    counts = (*_COUNTS, 2, 1_000, 100_000)
    repeats = {what: f' table:number-{what}-repeated="{_pick(rng, counts)}"' for what in ("columns", "rows")}
    filled = cell.format(7, repeats["columns"]) if rng.random() < 0.7 else f"<table:table-cell{repeats['columns']}/>"
    table.append(f"<table:table-row{repeats['rows']}>{filled}</table:table-row>")
    if rng.random() < 0.5:
        table.append(f"<table:table-row>{cell.format(1, '')}</table:table-row>")
    body = f'<office:spreadsheet><table:table table:name="S">{"".join(table)}</table:table></office:spreadsheet>'
    content = f"<office:document-content {spaces}><office:body>{body}</office:body></office:document-content>"
    kind = b"application/vnd.oasis.opendocument.spreadsheet"
    manifest = b'<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>'
    return archive([("mimetype", kind), ("content.xml", content.encode()), ("META-INF/manifest.xml", manifest)])


def _record(kind: int, data: bytes, length: int | None = None) -> bytes:
    """Return a record of an .xlsb: its kind and length in steps of seven bits, and its bytes."""

    def steps(number: int) -> bytes:
        parts = []
        while True:
            number, low = divmod(number, 128)
            parts.append(low | 128 * bool(number))
            if not number:
                return bytes(parts)

    head = steps(kind) if kind < 128 else bytes([kind & 127 | 128, kind >> 7])
    return head + steps(len(data) if length is None else length) + data


def _sheet_of_xlsb(rng: np.random.Generator) -> bytes:
    """Return an .xlsb with one cell far away, or a record that promises more bytes than there are."""

    def text(value: str) -> bytes:
        return struct.pack("<I", len(value)) + value.encode("utf-16-le")

    def row(number: int) -> bytes:
        return _record(0, struct.pack("<I", number & 0xFFFFFFFF) + bytes(21))

    def number(column: int, value: float) -> bytes:
        return _record(5, struct.pack("<II", column & 0xFFFFFFFF, 0) + struct.pack("<d", value))

    def words(column: int, value: str) -> bytes:
        return _record(6, struct.pack("<II", column, 0) + text(value))

    cells = row(0) + words(0, "score") + words(1, "outcome")
    cells += b"".join(row(k) + number(0, s) + number(1, y) for k, (s, y) in enumerate(rows(), 1))
    cells += row(_pick(rng, _EXTENTS)) + number(_pick(rng, _EXTENTS), 1)
    if rng.random() < 0.3:
        cells += _record(5, bytes(16), length=int(rng.integers(2**20, 2**28)))
    corners = [_pick(rng, _EXTENTS) & 0xFFFFFFFF for _ in range(4)]
    sheet = _record(129, b"") + _record(148, struct.pack("<IIII", *corners)) + _record(145, b"") + cells
    sheet += _record(146, b"") + _record(130, b"")
    bundle = struct.pack("<II", 0, 1) + text("rId1") + text("S")
    book = _record(131, b"") + _record(143, b"") + _record(156, bundle) + _record(144, b"") + _record(132, b"")
    strings = _record(159, struct.pack("<II", *(_pick(rng, _COUNTS) & 0xFFFFFFFF for _ in range(2)))) + _record(
        160, b""
    )
    start = f'<Relationships xmlns="{_PACKAGE}/relationships">'
    link = '<Relationship Id="rId{}" Type="' + _OFFICE + '/{}" Target="{}.bin"/>'
    links = link.format(1, "worksheet", "worksheets/sheet1") + link.format(2, "sharedStrings", "sharedStrings")
    return archive(
        [
            ("[Content_Types].xml", f'<Types xmlns="{_PACKAGE}/content-types"/>'.encode()),
            ("xl/workbook.bin", book),
            ("xl/_rels/workbook.bin.rels", f"{start}{links}</Relationships>".encode()),
            ("xl/worksheets/sheet1.bin", sheet),
            ("xl/sharedStrings.bin", strings),
        ]
    )


def forged(seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """Yield forged workbooks without end, each with the names of its lies; every lie alone first, then two together."""
    rng = np.random.default_rng(seed)
    for _ in range(3):
        for lie in LIES:
            yield lie.__name__, lie(Book(), rng).data()
    while True:
        yield "ods", _sheet_of_ods(rng)
        yield "xlsb", _sheet_of_xlsb(rng)
        first, second = (LIES[k] for k in rng.permutation(len(LIES))[:2])
        yield f"{first.__name__}, {second.__name__}", second(first(Book(), rng), rng).data()
