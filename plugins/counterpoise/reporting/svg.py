"""From a matplotlib figure to SVG that sits inside a page: no identity of its own, the page's fonts
and colours.

    picture = inline_svg(draw, name="leaders", label="Leaders per broker", width=720, height=200)

Colours are drawn as stand-ins and replaced by CSS variables, so that one picture serves light, dark
and print. Text stays text (escaped by matplotlib, never read as mathematics). The bytes depend on
the figure alone.
"""

import io
import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RACK_COLOURS: Final = 8  # style.css has --rack-0 to --rack-7; more racks than that share colours
HEAT_COLOURS: Final = 9  # --heat-0 (far below the fair share) to --heat-8 (far above it)

INK: Final = "#0a0001"
MUTED: Final = "#0a0002"
GRID: Final = "#0a0003"
FAIR: Final = "#0a0004"
ALERT: Final = "#0a0005"
SURFACE: Final = "#0a0006"
AFTER: Final = "#0a0008"
NO_RACK: Final = "#0a0009"
_NAMES: Final = {
    INK: "ink",
    MUTED: "muted",
    GRID: "grid",
    FAIR: "fair",
    ALERT: "alert",
    SURFACE: "surface",
    AFTER: "after",
    NO_RACK: "no-rack",
    **{f"#0b000{index}": f"rack-{index}" for index in range(RACK_COLOURS)},
    **{f"#0c000{index}": f"heat-{index}" for index in range(HEAT_COLOURS)},
}
# What matplotlib writes of a shape: `M 1.234567 2.345678 \nL ...`; a hundredth of a unit is far
# less than a pixel, and a tenth is less than one where a shape has so many points.
_SHAPE: Final = re.compile(r'(?<=\bd=")[^"]+(?=")')
_LONG_NUMBER: Final = re.compile(r"-?\d+\.\d+")
_MANY_POINTS: Final = 1_000  # characters of a shape
_LINES: Final = re.compile(r"M (\S+) (\S+)((?: L \S+ \S+){2,})")
_GROUP: Final = re.compile(r"<g\b[^>]*>|</g>")
_APPEARANCE: Final = re.compile(r"\b(?:clip-path|style|transform)=")
_RECTANGLE: Final = re.compile(r"M (\S+) (\S+) L (\S+) \2 L \3 (\S+) L \1 \4 (?:L \1 \2 )?z ?")
_RECTANGLES: Final = re.compile(f"(?:{_RECTANGLE.pattern})+")
_UPRIGHT: Final = re.compile(r"M (\S+) (\S+) L \1 (\S+)")
_LEVEL: Final = re.compile(r"M (\S+) (\S+) L (\S+) \2")
_TAG: Final = re.compile(r"<[^<>]+>")
_STYLE: Final = re.compile(r' style="([^"]*)"')
_FONT: Final = re.compile(r"font(-family)?: ([\d.]+px )?'DejaVu Sans'[^;\"]*(; )?")

# What style.css says of every picture, or what is so unless said otherwise.
_FONT_SIZE: Final = 8.5
_SAID_ANYWAY: Final = (f"font-size: {_FONT_SIZE}px", "stroke-dashoffset: 0")
# The name that matplotlib gives a marker, a frame or a hatch, where it stands and where it is used.
_NAME: Final = re.compile(
    r'(\b(?:id|href|clip-path|style)="(?:[^"]*url\()?#?[^"]*-)([a-z][0-9a-f]{10})\b'
)

# Settings of matplotlib are those of the process, and pages are drawn by several threads.
_DRAWING: Final = threading.Lock()

# Any: matplotlib types its settings' names one by one.
_SETTINGS: Final[Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "counterpoise",
    "text.parse_math": False,  # a rack may be called $a$
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # ships with matplotlib: the same measures everywhere
    "font.size": _FONT_SIZE,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": GRID,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "hatch.linewidth": 1.1,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "lines.solid_capstyle": "butt",  # as SVG has it, so that no line has to say so
    "path.simplify": True,
}


def rack_colour(index: int | None) -> str:
    """Return the stand-in of a rack's colour; None is "no rack"."""
    return NO_RACK if index is None else f"#0b000{index % RACK_COLOURS}"


def heat_colour(level: int) -> str:
    """Return the stand-in of a heat map's colour."""
    return f"#0c000{level}"


def inline_svg(
    draw: "Callable[[Figure], None]", *, name: str, label: str, width: float, height: float
) -> Markup:
    """Return what `draw` puts on a figure of `width` x `height` units, as markup.

    `name` keeps its ids apart from others'.
    """
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    buffer = io.StringIO()
    with _DRAWING, matplotlib.rc_context(_SETTINGS):
        layout = ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.02)
        figure = Figure(figsize=(width / 72, height / 72), layout=layout)
        draw(figure)
        figure.patch.set_visible(False)  # the page's background shows through
        for axes in figure.axes:
            axes.patch.set_visible(False)
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return Markup(_for_page(buffer.getvalue(), name, label))  # matplotlib escaped every text in it


def plain_axes(figure: "Figure", *, grid: str = "x") -> "Axes":
    """Return axes with a light grid across `grid` and no frame."""
    axes = figure.add_subplot()
    calm(axes, grid=grid)
    return axes


def calm(axes: "Axes", *, grid: str) -> None:
    axes.set_axisbelow(True)
    axes.grid(visible=True, axis="x" if grid == "x" else "y")
    axes.tick_params(length=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)


def _for_page(svg: str, name: str, label: str) -> str:
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, count=1, flags=re.DOTALL)
    body = re.sub(r"<style type=\"text/css\">.*?</style>", "", body, count=1, flags=re.DOTALL)
    view_box = re.search(r'viewBox="([\d. ]+)"', body)
    assert view_box is not None, "matplotlib always writes a view box"
    head = f'<svg class="picture" viewBox="{view_box[1]}" role="img" aria-label="{escape(label)}">'
    body = head + body[body.index(">") + 1 :]
    body = re.sub(r'(<[^<>]*?\b)id="', rf'\1id="{name}-', body)
    body = re.sub(r"url\(#", f"url(#{name}-", body)
    body = re.sub(r'xlink:href="#', f'href="#{name}-', body)
    body = _without_plain_groups(body)
    names: dict[str, str] = {}
    body = _TAG.sub(lambda tag: _short_tag(tag[0], names), body)
    body = re.sub(r">\s+<", "><", body)
    return re.sub(r"#0[abc]000\d", lambda found: f"var(--{_NAMES[found[0]]})", body)


def _short_tag(tag: str, names: dict[str, str]) -> str:
    """Return the same tag without what is so anyway; `names` has the short names of the picture's
    parts so far.
    """
    tag = re.sub(r' transform="rotate\(-0 [^"]*"', "", tag)
    tag = re.sub(r'(?<= )[xy]="[^"]+"', lambda found: _rounded(found[0], 2), tag)
    tag = _NAME.sub(lambda at: at[1] + names.setdefault(at[2], str(len(names))), tag)
    tag = _SHAPE.sub(_short_shape, tag)
    return _STYLE.sub(_short_style, tag)


def _short_style(found: re.Match[str]) -> str:
    """Return the same style, but for what style.css says of every picture: its font."""
    style = _FONT.sub(lambda font: f"font-size: {font[2].strip()}; " if font[2] else "", found[1])
    said = [part for part in style.split("; ") if part and part not in _SAID_ANYWAY]
    return f' style="{"; ".join(said)}"' if said else ""


def _short_shape(found: re.Match[str]) -> str:
    """Return the same shape in fewer characters: fewer decimals, and corners and points by the way
    from the one before.
    """
    decimals = 1 if len(found[0]) > _MANY_POINTS else 2
    shape = _rounded(" ".join(found[0].split()), decimals)
    if straight := _UPRIGHT.fullmatch(shape):
        return "M{} {}V{}".format(*straight.groups())
    if straight := _LEVEL.fullmatch(shape):
        return "M{} {}H{}".format(*straight.groups())
    shape = _RECTANGLES.sub(lambda run: _by_corners(run[0], 10**decimals), shape)
    return _LINES.sub(lambda line: _by_steps(line, 10**decimals), shape)


def _rounded(text: str, decimals: int) -> str:
    return _LONG_NUMBER.sub(lambda number: _plain(float(number[0]), decimals), text)


def _plain(number: float, decimals: int) -> str:
    return f"{number:.{decimals}f}".rstrip("0").rstrip(".")


def _by_corners(rectangles: str, scale: int) -> str:
    """Return `M1 2h3v4h-3zm5 0h6v7h-6z` of two rectangles; steps are of rounded corners."""
    written = ""
    before: tuple[int, int] | None = None
    for each in _RECTANGLE.finditer(rectangles):
        x, y, far_x, far_y = (round(float(text) * scale) for text in each.groups())
        start = (x - before[0], y - before[1]) if before else (x, y)
        dx, dy, wide, high = (_plain(n / scale, 2) for n in (*start, far_x - x, far_y - y))
        back = _plain((x - far_x) / scale, 2)
        written += f"{'m' if before else 'M'}{dx} {dy}h{wide}v{high}h{back}z"
        before = x, y
    return written


def _by_steps(line: re.Match[str], scale: int) -> str:
    """Return `M1 2l3 4 5 6` of `M 1 2 L 4 6 L 9 12`; steps are of rounded points, so nothing adds
    up.
    """
    numbers = [round(float(text) * scale) for text in line[3].replace("L", "").split()]
    x, y = round(float(line[1]) * scale), round(float(line[2]) * scale)
    steps = []
    for next_x, next_y in zip(numbers[::2], numbers[1::2], strict=True):
        steps += [_plain((next_x - x) / scale, 2), _plain((next_y - y) / scale, 2)]
        x, y = next_x, next_y
    return f"M{line[1]} {line[2]}l{' '.join(steps)}"


def _without_plain_groups(body: str) -> str:
    """Return the same without groups that only have an id, which nothing refers to."""
    is_kept: list[bool] = []

    def each(found: re.Match[str]) -> str:
        tag = found[0]
        if tag.endswith("/>"):
            return ""
        if tag == "</g>":
            return tag if is_kept.pop() else ""
        is_kept.append(bool(_APPEARANCE.search(tag)))
        return tag if is_kept[-1] else ""

    return _GROUP.sub(each, body)
