"""Waivers in a file of their own, for an audit of a cluster that clusters.yaml does not name.

    waivers:
      - {rule: auto-create-topics, reason: developers want it, until: 2027-01-31}

The entries are those of `policy.audit.waivers` in clusters.yaml.
"""

from dataclasses import dataclass
from pathlib import Path

from counterpoise.errors import ConfigurationError
from counterpoise.input_files import CLUSTERS, read_input_text
from counterpoise.model.setting import Section
from counterpoise.model.severity import Waiver
from counterpoise.settings.yaml_document import YamlDocument


@dataclass(frozen=True, slots=True)
class WaiversFile(Section):
    waivers: tuple[Waiver, ...]


def read_waivers(path: Path) -> tuple[Waiver, ...]:
    """Return the waivers of a file.

    Raises InputError for one that cannot be read, ConfigurationError with every complaint.
    """
    document = YamlDocument(read_input_text(path, "waivers", CLUSTERS), where=str(path))
    if document.is_empty:
        raise ConfigurationError(str(path), ('line 1: the file is empty; it needs "waivers"',))
    file = document.read(WaiversFile)
    document.finish()
    assert file is not None, "what cannot be read was complained of"
    return file.waivers
