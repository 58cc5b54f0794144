"""Sends messages through Airflow's connections: to webhooks of Slack's kind, and by mail.

    tell(installation, "orders-eu")         # in a task: whatever is new; never fails it

A webhook is a connection of type `http`: its host is the address, its password, if any, the last
part of it. The body is `{"text": "*title*\\nlines\\nlink"}`. Mail goes by Airflow's provider `smtp`
and its connection.

Limits: answers other than 2xx are failures, redirects too. Nothing here logs an address.
"""

import html
import json
import urllib.error
import urllib.request
from collections.abc import Iterable
from http.client import InvalidURL
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Connection
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException

from counterpoise.model.notification import Channel, Notification, Target
from counterpoise.model.safe_text import one_line, safe_logger, without_secrets

if TYPE_CHECKING:
    from counterpoise.installation import Installation

_LOGGER = safe_logger(__name__)
_TIMEOUT_SECONDS: Final = 10.0


def tell(installation: "Installation", cluster: str) -> None:
    """Notify people of what is new about a cluster; failures are warnings in the log."""
    from counterpoise.services import notifications

    try:
        count = notifications.notify(installation, cluster, send)
        if count:
            _LOGGER.info("%d messages about %s were sent", count, cluster)
    except Exception as error:  # noqa: BLE001 - a task must not fail because of its messages
        _LOGGER.warning("people were not notified about %s: %s", cluster, type(error).__name__)


def tell_about_run(installation: "Installation", run_id: str) -> None:
    """Do what `tell` does about the cluster of a run."""
    try:
        cluster = installation.ledger.run(run_id).cluster
    except Exception as error:  # noqa: BLE001
        _LOGGER.warning("people were not notified about %s: %s", run_id, type(error).__name__)
        return
    tell(installation, cluster)


def send(target: Target, notification: Notification) -> None:
    """Send one message to a target. Raises DeliveryError."""
    post(target, notification.title, notification.lines, link_to(notification.page))


def link_to(page: str) -> str:
    """Return the address of a page below Airflow's."""
    return f"{conf.get('api', 'base_url', fallback='').rstrip('/')}/{page}"


def post(target: Target, title: str, lines: Iterable[str], link: str = "") -> None:
    """Send one text to a target, without the secrets in it. Raises DeliveryError."""
    from counterpoise.services.notifications import DeliveryError

    title, lines = without_secrets(title), [without_secrets(line) for line in lines]
    try:
        if target.channel == Channel.WEBHOOK:
            _post(target.connection_id, title, lines, link)
        else:
            _mail(target, title, lines, link)
    except Exception as error:  # noqa: BLE001 - of any library
        raise DeliveryError(_why(error, target.connection_id)) from None


def _why(error: Exception, connection_id: str) -> str:
    """Return why a message was not sent, without the text of an error: it may show an address."""
    cause = error.__context__ or error  # the provider smtp raises errors of its own
    if isinstance(cause, AirflowNotFoundException):
        return f"Airflow has no connection {connection_id!r}"
    if isinstance(cause, ImportError):
        return "mail needs Airflow's provider smtp"
    if isinstance(cause, urllib.error.HTTPError):
        return f"connection {connection_id} answered {cause.code}"
    if isinstance(cause, ValueError | InvalidURL | urllib.error.URLError):
        return f"connection {connection_id}: its host is no address, like https://hooks.example.org"
    if isinstance(cause, AirflowException):  # what the provider smtp misses in its connection
        return f"connection {connection_id}: {without_secrets(one_line(str(cause)))}"
    return f"connection {connection_id}: {type(cause).__name__}"


# -- webhooks


def _post(webhook: str, title: str, lines: Iterable[str], link: str) -> None:
    request = urllib.request.Request(
        _address(Connection.get(webhook)),
        data=json.dumps({"text": message_text(title, lines, link)}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with _OPENER.open(request, timeout=_TIMEOUT_SECONDS) as response:
        response.read(1)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A message goes where its connection says, and nowhere else."""

    def redirect_request(self, *_arguments: Any, **_more: Any) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_NoRedirects)


def _address(connection: Any) -> str:
    host = connection.host or ""
    if "://" not in host:
        port = f":{connection.port}" if connection.port else ""
        host = f"{connection.schema or 'https'}://{host}{port}"
    if not host.startswith(("http://", "https://")):
        raise ValueError("no address of a webhook")
    return f"{host.rstrip('/')}/{connection.password}" if connection.password else host


def message_text(title: str, lines: Iterable[str], link: str) -> str:
    """Return the text of a message. Reasons and names are whatever somebody typed: they make no
    line of their own, and no link or mention of Slack's (https://docs.slack.dev/messaging).
    """
    shown = (f"*{' '.join(title.split())}*", *lines, link)
    own_lines = "\n".join(one_line(line) for line in shown)
    return own_lines.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# -- mail


def _mail(target: Target, title: str, lines: Iterable[str], link: str) -> None:
    from airflow.providers.smtp.hooks.smtp import SmtpHook

    subject = one_line(" ".join(title.split()))
    shown = [html.escape(one_line(line)) for line in lines]
    if link:
        shown.append(f'<a href="{html.escape(link)}">{html.escape(link)}</a>')
    with SmtpHook(smtp_conn_id=target.connection_id) as hook:
        hook.send_email_smtp(
            to=target.name,
            subject=subject,
            html_content=f"<p>{html.escape(subject)}</p><p>{'<br>'.join(shown)}</p>",
        )
