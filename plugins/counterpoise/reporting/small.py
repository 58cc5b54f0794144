"""Small charts inside a table: a line over time, brokers side by side, the forecast of a disk.

    spark(load.bytes_in_trace, label="Bytes in of demo")

A few hundred bytes each, drawn by hand: nothing but numbers and the page's colours is in them, and
the escaped label.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from markupsafe import Markup, escape

from counterpoise.model.load import SOON_DAYS, DiskForecast, Trace

_WIDTH, _HEIGHT = 120.0, 26.0
_DAY: Final = 86_400.0
Place = tuple[float, float]


def spark(trace: Trace, *, label: str) -> Markup:
    """Draw a line from zero up, broken where nothing is known, with a dot at its end."""
    top = max((value for value in trace.values if value is not None), default=0) or 1
    places = [
        (1 + at * (_WIDTH - 4), _HEIGHT - 2 - (_HEIGHT - 5) * value / top)
        if value is not None
        else None
        for at, value in zip(trace.at, trace.values, strict=True)
    ]
    last = next((place for place in reversed(places) if place), None)
    dot = _dot(last, "after") if last else ""
    return _svg(f"{_base()}{_broken_line(places, 'after')}{dot}", label)


def brokers(values: Sequence[int], *, label: str) -> Markup:
    """Draw every broker, the largest value first, against the mean; the gap at the end are brokers
    with nothing.
    """
    if not values:
        return Markup("")
    ordered = sorted(values, reverse=True)
    top, each = max(ordered) or 1, _WIDTH / len(ordered)
    gap = min(1.5, each * 0.2) if each >= 3 else 0.0
    bars = ""
    for index, value in enumerate(ordered):
        if value:
            bar_height = (_HEIGHT - 2) * value / top
            start = f"M{index * each:.1f} {_HEIGHT:g}"
            bars += f"{start}v{-bar_height:.1f}h{each - gap:.1f}V{_HEIGHT:g}z"
    idle = sum(not value for value in ordered)
    fair = _HEIGHT - (_HEIGHT - 2) * sum(ordered) / len(ordered) / top
    missing = ""
    if idle and any(ordered):
        left = _WIDTH - idle * each + 0.7
        width = max(1.0, idle * each - 1.4)
        style = "fill: none; stroke: var(--alert); stroke-dasharray: 3 2"
        missing = (
            f'<rect x="{left:.1f}" y="{fair:.1f}" width="{width:.1f}" '
            f'height="{_HEIGHT - fair - 0.7:.1f}" style="{style}"/>'
        )
    mean = (
        f'<path d="M0 {fair:.1f}H{_WIDTH:g}" style="stroke: var(--fair); stroke-dasharray: 4 2"/>'
    )
    return _svg(f'<path d="{bars}" style="fill: var(--after)"/>{missing}{mean}', label)


def disk(forecast: DiskForecast, *, label: str) -> Markup:
    """Draw what was used in the last two weeks, and dashed the next 30 days, below the line at
    which the disk is full.
    """
    used = forecast.used_share
    if used is None or not forecast.total_bytes or forecast.held_bytes is None:
        return Markup("")
    past = forecast.held.seconds / _DAY
    unit = (_WIDTH - 2) / (past + SOON_DAYS)

    def place(day: float, share: float) -> Place:
        return 1 + (past + day) * unit, _HEIGHT - 1 - (_HEIGHT - 4) * min(1.0, max(0.0, share))

    places = [
        place((at - 1) * past, used + (value - forecast.held_bytes) / forecast.total_bytes)
        if value is not None
        else None
        for at, value in zip(forecast.held.at, forecast.held.values, strict=True)
    ]
    is_soon = forecast.is_full_soon
    full = f'<path d="M0 3H{_WIDTH:g}" style="stroke: var(--muted); stroke-width: 1"/>'
    ahead = ""
    if forecast.bytes_per_day is not None:
        days = min(SOON_DAYS, forecast.days_left) if forecast.days_left is not None else SOON_DAYS
        end = place(days, used + days * forecast.bytes_per_day / forecast.total_bytes)
        ahead = _path([place(0, used), end], "alert" if is_soon else "after", dash="3 2")
        ahead += _dot(end, "alert") if is_soon else ""
    return _svg(
        f"{_base()}{full}{_broken_line(places, 'after')}{ahead}{_dot(place(0, used), 'after')}",
        label,
    )


def _svg(body: str, label: str, *, width: float = _WIDTH, height: float = _HEIGHT) -> Markup:
    head = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img"'
    return Markup(f'<svg class="small" {head} aria-label="{escape(label)}">{body}</svg>')


def _base() -> str:
    return f'<path d="M0 {_HEIGHT - 1:g}H{_WIDTH:g}" style="stroke: var(--grid)"/>'


def _broken_line(places: Sequence[Place | None], colour: str) -> str:
    """Draw lines between breaks; a single point between two breaks is a dot."""
    parts = (list(part) for part in _parts(places))
    return "".join(
        _path(part, colour) if len(part) > 1 else _dot(part[0], colour) for part in parts
    )


def _parts(places: Sequence[Place | None]) -> Iterator[list[Place]]:
    for is_known, group in groupby(places, key=lambda place: place is not None):
        if is_known:
            yield [place for place in group if place is not None]


def _path(places: Sequence[Place], colour: str, *, dash: str = "none") -> str:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    look = f"fill: none; stroke: var(--{colour}); stroke-width: 1.4; stroke-dasharray: {dash}"
    return f'<polyline points="{points}" style="{look}"/>'


def _dot(place: Place, colour: str) -> str:
    return (
        f'<circle cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="1.8" style="fill: var(--{colour})"/>'
    )
