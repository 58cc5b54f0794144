"""The listeners in a broker's configs: names, endpoints, security protocols.

    listeners_of("CLIENT://kafka-1:9092")      # (Listener("CLIENT", "kafka-1", "9092"),)
    advertised_names(configs)                  # {"CLIENT"}: without the listeners of controllers

Limits: an entry that is not `NAME://HOST:PORT` is skipped.
"""

import ipaddress
from dataclasses import dataclass
from typing import Final

from counterpoise.audit.commands import to_fill_in
from counterpoise.audit.facts import Configs
from counterpoise.model.safe_text import properties_value

ADVERTISED: Final = "advertised.listeners"
LISTENERS: Final = "listeners"
PROTOCOL_MAP: Final = "listener.security.protocol.map"
_LOCAL_NAMES: Final = ("", "localhost", "localhost.localdomain", "ip6-localhost")


@dataclass(frozen=True, slots=True)
class Listener:
    name: str
    host: str
    port: str

    @property
    def endpoint(self) -> str:
        return f"{self.host}:{self.port}"


def listeners_of(text: str | None) -> tuple[Listener, ...]:
    """Return the listeners of `CLIENT://kafka-1:9092,INTERNAL://[::1]:9093`; skip other words."""
    listeners = []
    for word in (text or "").split(","):
        name, separator, endpoint = word.strip().partition("://")
        host, _, port = endpoint.rpartition(":")
        if separator and port:
            listeners.append(Listener(name.upper(), host.strip("[]"), port))
    return tuple(listeners)


def advertised_names(configs: Configs) -> set[str]:
    """Return the names of listeners for clients and brokers, without those of controllers."""
    advertised = listeners_of(value_of(configs, ADVERTISED))
    listeners = advertised or listeners_of(value_of(configs, LISTENERS))
    return {listener.name for listener in listeners} - controller_names(configs)


def controller_names(configs: Configs) -> set[str]:
    """Return the names of listeners for controllers."""
    names = (value_of(configs, "controller.listener.names") or "").split(",")
    return {name.strip().upper() for name in names}


def protocol_map(configs: Configs) -> dict[str, str]:
    """Return the security protocol by listener name."""
    entries = [entry.partition(":") for entry in (value_of(configs, PROTOCOL_MAP) or "").split(",")]
    return {
        name.strip().upper(): protocol.strip().upper()
        for name, _, protocol in entries
        if protocol.strip()
    }


def value_of(configs: Configs, key: str) -> str | None:
    """Return a config's value; None where it is absent or hidden."""
    config = configs.get(key)
    return config.value if config is not None else None


def is_local(host: str) -> bool:
    """Return whether each client takes the host for itself: loopback, or the wildcard."""
    address = ip_of(host)
    if address is not None:
        return address.is_loopback or address.is_unspecified
    return host.lower().rstrip(".") in _LOCAL_NAMES


def ip_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the host as an IP address; None where it is a name."""
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def server_properties(broker_id: int, configs: Configs) -> tuple[str, ...]:
    """Return the line of server.properties to fill in, with what the broker advertises now."""
    key = ADVERTISED if ADVERTISED in configs else LISTENERS
    configured = listeners_of(value_of(configs, key))
    listeners = configured or (Listener("LISTENER", "", "PORT"),)
    values = [
        f"{listener.name}://HOST-THAT-CLIENTS-RESOLVE:{listener.port}" for listener in listeners
    ]
    return (
        f"# server.properties of broker {broker_id}, then restart it:",
        *to_fill_in(f"{ADVERTISED}={properties_value(','.join(values))}"),
    )
