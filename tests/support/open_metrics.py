"""A strict reader of OpenMetrics text, written from the specification alone: gauges only.

    parse('# TYPE a gauge\\n# HELP a What.\\na{b="c"} 1.0\\n# EOF\\n')["a"] == {(("b", "c"),): 1.0}

Source: https://prometheus.io/docs/specs/om/open_metrics_spec/, "Text format".
"""

import re

Labels = tuple[tuple[str, str], ...]
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{(.*)\} (-?[0-9.e+-]+)")
_ESCAPES = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}


def parse(text: str) -> dict[str, dict[Labels, float]]:
    """Return the samples of each metric by labels. Raises AssertionError for anything unusual."""
    assert text.endswith("# EOF\n") and text.count("# EOF") == 1
    found: dict[str, dict[Labels, float]] = {}
    helped: set[str] = set()
    current = ""
    for line in text.removesuffix("# EOF\n").splitlines():
        if line.startswith("# TYPE "):
            current = line.removeprefix("# TYPE ").removesuffix(" gauge")
            assert _NAME.fullmatch(current), line
            assert current not in found, f"{current} comes twice"
            found[current] = {}
        elif line.startswith("# HELP "):
            name, _, words = line.removeprefix("# HELP ").partition(" ")
            assert name == current and words and name not in helped, line
            helped.add(name)
        else:
            match = _SAMPLE.fullmatch(line)
            assert match and match[1] == current, line
            labels = _labels(match[2])
            assert labels not in found[current], f"{line} comes twice"
            found[current][labels] = float(match[3])
    return found


def _labels(text: str) -> Labels:
    labels, at = [], 0
    while at < len(text):
        match = _LABEL.match(text, at)
        assert match, text[at:]
        value = re.sub(r'\\[n"\\]', lambda escape: _ESCAPES[escape[0]], match[2])
        labels.append((match[1], value))
        at = match.end()
        assert at == len(text) or text[at] == ",", text[at:]
        at += 1
    assert not text.endswith(","), text
    return tuple(labels)
