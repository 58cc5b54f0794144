"""Gives our tokens to kafka-python, whose interface wants a subclass.

KafkaAdminClient(sasl_oauth_token_provider=TokenProvider(source), ...)
"""

from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from counterpoise.kafka_admin.tokens import TokenSource


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """See `TokenSource`."""

    def __init__(self, source: TokenSource) -> None:
        super().__init__()
        self._source = source

    def token(self) -> str:
        return self._source.token().text

    def extensions(self) -> dict[str, Any]:
        return dict(self._source.extensions)
