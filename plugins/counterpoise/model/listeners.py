"""The listeners in a broker's configs: names, endpoints, security protocols.

    listeners_of("CLIENT://kafka-1:9092")      # (Listener("CLIENT", "kafka-1", "9092"),)
    advertised_names(configs)                  # {"CLIENT"}: without the listeners of controllers

Limits: an entry that is not `NAME://HOST:PORT` is skipped.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from counterpoise.model.kafka import ConfigValue

ADVERTISED: Final = "advertised.listeners"
LISTENERS: Final = "listeners"
PROTOCOL_MAP: Final = "listener.security.protocol.map"

Configs = Mapping[str, ConfigValue]


@dataclass(frozen=True, slots=True)
class Listener:
    name: str
    host: str
    port: str

    @property
    def endpoint(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def endpoint_in_config(self) -> str:
        """Return the endpoint as server.properties has it: an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else self.endpoint


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


def between_brokers(configs: Configs) -> str:
    """Return the name of the listener that brokers use among themselves."""
    by_name = value_of(configs, "inter.broker.listener.name")
    return by_name or value_of(configs, "security.inter.broker.protocol") or "PLAINTEXT"


def tls_listeners(configs: Configs) -> tuple[Listener, ...]:
    """Return the advertised listeners with TLS, without those of controllers."""
    names = advertised_names(configs)
    protocols = protocol_map(configs)
    return tuple(
        listener
        for listener in listeners_of(value_of(configs, ADVERTISED))
        if listener.name in names
        if protocols.get(listener.name, listener.name) in ("SSL", "SASL_SSL")
    )
