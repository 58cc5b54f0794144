"""Where settings, connections, store and ledger are, and why there. Opens none of them.

for place in places(installation): print(place.what, place.where, place.why, place.state)
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from counterpoise.errors import CounterpoiseError
from counterpoise.installation import Installation, settings_in
from counterpoise.model.words import pluralize
from counterpoise.settings.locations import Address

_THERE: Final = "there"
_NOT_THERE: Final = "not there yet"
_SQLITE: Final = "sqlite:///"


class Place(NamedTuple):
    what: str
    where: str  # without what may be secret
    why: str
    state: str


def places(installation: Installation) -> tuple[Place, ...]:
    """Return each place. Where a command or a file tells an address, it is asked."""
    locations = installation.locations
    return (
        Place(
            "settings",
            str(locations.config.absolute()),
            _why(installation, "COUNTERPOISE_CONFIG", is_default=locations.is_default_config),
            _state_of_settings(installation),
        ),
        Place(
            "connections",
            str(locations.connections.absolute()),
            "COUNTERPOISE_CONNECTIONS, or connections.yaml beside the settings",
            _state(locations.connections),
        ),
        place_of_store(installation),
        place_of_ledger(installation),
    )


def place_of_store(installation: Installation) -> Place:
    # Imported here: only this needs to know what such an address looks like.
    from counterpoise.storage import shown_uri

    return _of_address("store", installation, installation.locations.store_address, shown_uri)


def place_of_ledger(installation: Installation) -> Place:
    from counterpoise.ledger import shown_address

    return _of_address("ledger", installation, installation.locations.ledger_address, shown_address)


def _why(installation: Installation, variable: str, *, is_default: bool) -> str:
    return (
        f"{variable} is not set: {installation.locations.default.reason}"
        if is_default
        else variable
    )


def _of_address(
    what: str, installation: Installation, address: Address, shown: Callable[[str], str]
) -> Place:
    why = _why(installation, address.variable, is_default=address.is_default)
    try:
        where = shown(address.read())
    except CounterpoiseError as error:
        return Place(what, "not known", why, str(error))
    path = where.removeprefix(_SQLITE)
    is_file = "://" not in path
    return Place(what, where, why, _state(Path(path)) if is_file else "not asked")


def _state_of_settings(installation: Installation) -> str:
    try:
        settings = settings_in(installation.locations)
    except CounterpoiseError as error:
        return str(error)
    state = _state(installation.locations.config)
    return f"{state}, {pluralize(len(settings.clusters), 'cluster')}" if state == _THERE else state


def _state(path: Path) -> str:
    try:
        return _THERE if path.exists() else _NOT_THERE
    except (OSError, ValueError) as error:
        return f"cannot be seen ({getattr(error, 'strerror', None) or error})"
