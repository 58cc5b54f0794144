"""What a report page says, read from its HTML: tables, tiles and sentences; and which of its
numbers nobody has looked at yet.

    page = ReportPage(html)
    page.row("Racks", "a") == ["1", "12", ...]      # the cells after the first one
    page.tile("Bytes in") == ("2.0 MB/s", "from producers")
    page.tile_before("Bytes in") == "↑ from 1.8 MB/s"
    page.unread()                                   # numbers that no test has asked for

Pictures are left out, but for their labels; so is what explains the figures.
`Page` is simpler: every element, and all the words.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Final

import pytest

_DIGIT: Final = re.compile(r"\d")
_HEADINGS: Final = frozenset({"h1", "h2", "summary"})
_SENTENCES: Final = frozenset({"p", "li", "div", "footer", "pre"})
_VOID: Final = frozenset({"meta", "link", "br", "hr", "img", "input"})


def is_icon(tag: str, attributes: dict[str, str | None]) -> bool:
    """Return whether it is the icon of a page, which is in the page itself: nothing is fetched."""
    is_inline = (attributes.get("href") or "").startswith("data:image/svg+xml,")
    return tag == "link" and attributes.keys() == {"rel", "href"} and is_inline


class Page(HTMLParser):
    """Every element but the icon, with its attributes, the visible words, and nothing else."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if not is_icon(tag, attributes):
            self.elements.append((tag, attributes))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}


@dataclass
class _Row:
    table: str
    cells: list[str] = field(default_factory=list)


class ReportPage(HTMLParser):
    """The page, and what of it has been read."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[_Row] = []
        self.tiles: list[tuple[str, ...]] = []  # title, value, note, and the period before
        self.sentences: list[str] = []
        self.labels: list[str] = []  # of pictures
        self._read: set[int] = set()  # ids of rows, tiles and sentences
        self._heading = ""
        self._open: list[tuple[str, str]] = []  # tags and their classes
        self._text: list[list[str]] = []
        self._tile: list[str] = []
        self._head_rows = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if tag == "svg" and known.get("aria-label"):
            self.labels.append(str(known["aria-label"]))
        if tag in _VOID:
            return
        self._open.append((tag, known.get("class") or ""))
        self._text.append([])
        if tag == "tr" and not self._is_inside("thead"):
            self.rows.append(_Row(self._heading))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Shapes of pictures."""

    def handle_data(self, data: str) -> None:
        if self._text and not self._is_inside("svg", "style", "title", "script"):
            self._text[-1].append(data)

    def handle_endtag(self, tag: str) -> None:
        while self._open:
            opened, css_class = self._open.pop()
            text = " ".join("".join(self._text.pop()).split())
            self._close(opened, css_class, text)
            if opened == tag:
                return

    def _close(self, tag: str, css_class: str, text: str) -> None:
        if tag in _HEADINGS:
            self._heading = text
        elif tag == "figcaption":
            self.labels.append(text)
        elif tag in ("td", "th"):
            if self.rows and not self._is_inside("thead"):
                self.rows[-1].cells.append(text)
        elif tag in ("dt", "dd") and self._is_inside("dl", css_class="tiles"):
            self._tile.append(text)
        elif css_class.split()[:1] == ["tile"]:
            self.tiles.append(tuple(self._tile))
            self._tile = []
        elif tag in _SENTENCES and text and not self._is_inside("td"):
            self.sentences.append(text)
        elif tag == "small" and self._text:
            self._text[-1].append(f" {text}")
        elif self._text and tag not in ("dl", "dt", "dd", "svg", "style", "title"):
            self._text[-1].append(f" {text} " if tag == "div" else text)

    def _is_inside(self, *tags: str, css_class: str = "") -> bool:
        return any(tag in tags and (not css_class or css_class in css) for tag, css in self._open)

    # -- reading

    def table(self, heading: str) -> list[list[str]]:
        """Return all rows of the tables below a heading; they count as read."""
        found = [row for row in self.rows if row.table == heading]
        self._read |= {id(row) for row in found}
        return [row.cells for row in found]

    def row(self, heading: str, first: str) -> list[str]:
        """Return the cells after the first one of the row that begins so; it counts as read."""
        found = [r for r in self.rows if r.table == heading and r.cells[:1] == [first]]
        assert len(found) == 1, f"{len(found)} rows {first!r} in {heading!r}"
        self._read.add(id(found[0]))
        return found[0].cells[1:]

    def tile(self, title: str) -> tuple[str, str]:
        """Return value and note of a tile; it counts as read."""
        found = [tile for tile in self.tiles if tile[0] == title]
        assert len(found) == 1, f"{len(found)} tiles {title!r}: {[t[0] for t in self.tiles]}"
        self._read.add(id(found[0]))
        return found[0][1], found[0][2]

    def tile_before(self, title: str) -> str:
        """Return how a tile compares with the period before."""
        (found,) = [tile for tile in self.tiles if tile[0] == title]
        return found[3]

    def sentence(self, words: str) -> str:
        """Return the one sentence with these words; it counts as read."""
        found = [text for text in self.sentences if words in text]
        assert len(set(found)) == 1, f"{len(found)} sentences with {words!r}"
        self._read |= {id(text) for text in found}
        return found[0]

    def unread(self) -> list[str]:
        """Return every row, tile and sentence with a number that nobody asked for."""
        rows = [
            f"{row.table}: {row.cells}" for row in self.rows if self._is_unread(row, *row.cells)
        ]
        tiles = [str(tile) for tile in self.tiles if self._is_unread(tile, *tile)]
        sentences = [text for text in self.sentences if self._is_unread(text, text)]
        return rows + tiles + sentences

    def _is_unread(self, thing: object, *texts: str) -> bool:
        return id(thing) not in self._read and any(map(_DIGIT.search, texts))


# -- the charts of the balance as tables, beside the JSON of the same report

_LINES: Final[dict[str, Callable[[dict[str, Any]], float | None]]] = {
    "Max − min over the live brokers: leaders": lambda p: p["leaders"]["max_minus_min"],
    "Max − min over the live brokers: preferred leaders": lambda p: p["preferred_leaders"][
        "max_minus_min"
    ],
    "Max − min over the live brokers: replicas": lambda p: p["replicas"]["max_minus_min"],
    "The busiest broker's fair shares: leaders": lambda p: p["leaders"]["max_over_mean"],
    "The busiest broker's fair shares: bytes": lambda p: p["bytes"]["max_over_mean"],
    "The busiest broker's fair shares: bytes in": lambda p: _of(p["bytes_in"], "max_over_mean"),
    "Variation between brokers: leaders": lambda p: _percent(p["leaders"]),
    "Variation between brokers: replicas": lambda p: _percent(p["replicas"]),
    "Variation between brokers: bytes": lambda p: _percent(p["bytes"]),
    "Variation between brokers: bytes in": lambda p: _percent(p["bytes_in"]),
    "Not led by the preferred leader: partitions": lambda p: 100 * p["share_not_preferred"],
    "Topics led less evenly than whole partitions allow: uneven topics": lambda p: _of(
        p["changes"], "uneven_topics"
    ),
    **{
        f"Partitions whose leader changed since the snapshot before: {name}": (
            lambda p, key=key: None if _of(p["changes"], "is_rebuilt") else _of(p["changes"], key)
        )
        for name, key in (
            ("changed leader", "leaders_changed"),
            ("by failover", "failovers"),
            ("by preferred election", "preferred_elections"),
        )
    },
}
_RACKS: Final = "Leaders per broker of each rack, in % of the fair share: "


def check_tables_of_charts(page: ReportPage, document: dict[str, Any]) -> None:
    """Compare where each line began, went and is with the series of the document."""
    rows = page.table("The charts as a table")
    heat = {str(b): v for m in document["heat_maps"][:1] for b, v in _rows_of(m)}
    later = [(str(b), v) for m in document["heat_maps"][1:] for b, v in _rows_of(m)]
    measures = [row for row in rows if not row[0].isdigit()]
    assert len(measures) > 5 and len(rows) == len(measures) + len(heat) + len(later)
    for name, *texts in measures:
        values = [_LINES.get(name, lambda p, n=name: _rack(p, n))(p) for p in document["series"]]
        _check_extremes(texts, [value for value in values if value is not None])
    brokers = [row for row in rows if row[0].isdigit()]
    for (name, *texts), (broker, values) in zip(brokers, [*heat.items(), *later], strict=True):
        assert name == broker
        _check_extremes(texts, [100 * value for value in values if value is not None])


def _check_extremes(texts: list[str], values: list[float]) -> None:
    if not values:
        assert texts == ["not known"] * 4
        return
    wanted = (values[0], min(values), max(values), values[-1])
    for text, value in zip(texts, wanted, strict=True):
        assert Number.read(text).value == pytest.approx(value, abs=0.0051 if value % 1 else 0.51)


def _rows_of(heat: dict[str, Any]) -> list[tuple[int, list[float | None]]]:
    return list(zip(heat["broker_ids"], heat["values"], strict=True))


def _of(values: dict[str, Any] | None, key: str) -> Any:
    return None if values is None else values[key]


def _percent(spread: dict[str, Any] | None) -> float | None:
    return None if spread is None else 100 * spread["coefficient_of_variation"]


def _rack(point: dict[str, Any], name: str) -> float | None:
    assert name.startswith(_RACKS), name
    found = [rack for rack in point["racks"] if rack["rack"] == name.removeprefix(_RACKS)]
    leaders = point["leaders"]
    if not found or not leaders["total"]:
        return None
    of_rack = found[0]["leaders"]["total"] / found[0]["leaders"]["broker_count"]
    return float(100 * of_rack / (leaders["total"] / leaders["broker_count"]))


# -- comparing a text with the truth

_UNITS: Final = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "%": 1, "×": 1, "": 1}
_NUMBER: Final = re.compile(
    r"(?P<bound>[≥≤] )?(?P<number>-?[\d,]+(?:\.(?P<decimals>\d+))?) ?(?P<unit>[kMGT]?B|%|×)?(?:/s)?"
)


@dataclass(frozen=True)
class Number:
    """A number as it is printed: what it says, and half of its last digit."""

    value: float
    half_digit: float
    is_bound: bool

    @classmethod
    def read(cls, text: str) -> "Number":
        found = _NUMBER.fullmatch(text)
        assert found, f"no number: {text!r}"
        unit = _UNITS[found["unit"] or ""]
        value = float(found["number"].replace(",", "")) * unit
        half_digit = unit / 2 / 10 ** len(found["decimals"] or "")
        return cls(value, half_digit, found["bound"] == "≥ ")


def beside(text: str) -> tuple[str, str, str]:
    """Return a figure, how it stands beside the period before, and what that was.

    `5 ↑ from 3` is ("5", "↑", "3"), `5 as before` is ("5", "=", "5").
    """
    if text.endswith("as before"):
        now = text.removesuffix("as before").strip()
        return now, "=", now
    for arrow in "↑↓":
        now, found, before = text.partition(f"{arrow} from ")
        if found:
            return now.strip(), arrow, before
    now, _, before = text.partition("before: ")
    return now.strip(), "?", before


def is_near(text: str, truth: float, within: float = 0.0) -> bool:
    """Return whether a printed number is the truth, but for rounding and a part of it."""
    number = Number.read(text)
    allowed = number.half_digit * 1.001 + within * abs(truth)
    return not number.is_bound and abs(number.value - truth) <= allowed


def is_bound_of(text: str, truth: float, not_below: float, within: float = 0.0) -> bool:
    """Return whether a printed lower bound is one: marked, not above the truth, but for a part of
    it, and not below what is known for certain.
    """
    number = Number.read(text)
    highest = truth * (1 + within) + number.half_digit
    lowest = not_below * (1 - within) - number.half_digit
    return number.is_bound and lowest <= number.value <= highest
