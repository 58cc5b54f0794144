"""Delivers messages through Airflow's connections: webhooks (of Slack's kind), and mail.

    tell(installation, "orders-eu")         # in a task: whatever was not told yet; never fails it

A webhook is a connection of type `http`: its host is the address, its password, if any, the last
part of it. The extra may have a `template` for the body: JSON whose texts may hold {title}, {text},
{cluster}, {event}, {severity} and {link}. Mail goes by the provider `smtp` and its connection.

Limits: answers other than 2xx are failures, redirects too. Nothing here logs an address.
"""

import html
import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Connection
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowNotFoundException

from counterpoise.model.notification import Channel, Notification, Target
from counterpoise.model.safe_text import one_line, safe_logger

if TYPE_CHECKING:
    from counterpoise.installation import Installation

_LOGGER = safe_logger(__name__)
_TIMEOUT_SECONDS: Final = 10.0
_TEMPLATE: Final = {"text": "*{title}*\n{text}\n{link}"}
_PLACEHOLDER: Final = re.compile(r"\{(title|text|cluster|event|severity|link)\}")


def tell(installation: "Installation", cluster: str) -> None:
    """Tell people what they were not told yet about a cluster; failures are warnings in the log."""
    from counterpoise import pipeline

    try:
        count = pipeline.notify(installation, cluster, deliver)
        if count:
            _LOGGER.info("%d messages about %s were delivered", count, cluster)
    except Exception as error:  # noqa: BLE001 - a task must not fail because of its messages
        _LOGGER.warning("people were not told about %s: %s", cluster, type(error).__name__)


def tell_about_run(installation: "Installation", run_id: str) -> None:
    """Tell what `tell` does about the cluster of a run."""
    try:
        cluster = installation.ledger.run(run_id).cluster
    except Exception as error:  # noqa: BLE001
        _LOGGER.warning("people were not told about %s: %s", run_id, type(error).__name__)
        return
    tell(installation, cluster)


def deliver(target: Target, notification: Notification) -> None:
    """Send one message. Raises DeliveryError, or what a library raises."""
    notification = _with_own_lines_only(notification)
    link = f"{conf.get('api', 'base_url', fallback='').rstrip('/')}/{notification.page}"
    if target.channel == Channel.WEBHOOK:
        _post(target.connection_id, notification, link)
    else:
        _mail(target, notification, link)


def _with_own_lines_only(notification: Notification) -> Notification:
    """Return the notification without what would make a line, or a header, of its own: reasons and
    names are whatever somebody typed.
    """
    title = one_line(" ".join(notification.title.split()))
    return replace(notification, title=title, lines=tuple(map(one_line, notification.lines)))


# -- webhooks


def _post(connection_id: str, notification: Notification, link: str) -> None:
    connection = _connection(connection_id)
    body = webhook_body(connection.extra_dejson.get("template") or _TEMPLATE, notification, link)
    try:
        request = urllib.request.Request(
            _address(connection),
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with _OPENER.open(request, timeout=_TIMEOUT_SECONDS) as response:
            response.read(1)
    except urllib.error.HTTPError as error:
        raise _failure(f"connection {connection_id} answered {error.code}") from None
    except (OSError, ValueError) as error:  # the text may show the address
        reason = type(getattr(error, "reason", error)).__name__
        raise _failure(f"connection {connection_id}: {reason}") from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A message goes where its connection says, and nowhere else."""

    def redirect_request(self, *_arguments: Any, **_more: Any) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_NoRedirects)


def _failure(reason: str) -> Exception:
    from counterpoise.pipeline import DeliveryError

    return DeliveryError(reason)


def _connection(connection_id: str) -> Any:
    try:
        return Connection.get(connection_id)
    except AirflowNotFoundException:
        raise _failure(f"Airflow has no connection {connection_id!r}") from None


def _address(connection: Any) -> str:
    host = connection.host or ""
    if "://" not in host:
        port = f":{connection.port}" if connection.port else ""
        host = f"{connection.schema or 'https'}://{host}{port}"
    if not host.startswith(("http://", "https://")):
        raise ValueError("no address of a webhook")
    return f"{host.rstrip('/')}/{connection.password}" if connection.password else host


def webhook_body(template: Any, notification: Notification, link: str) -> Any:
    """Return the template with every text filled in; names from a cluster make no markup."""
    values = {
        "title": notification.title,
        "text": "\n".join(notification.lines),
        "cluster": notification.cluster,
        "event": str(notification.event),
        "severity": str(notification.severity),
        "link": link if notification.page else "",
    }
    return _filled(template, {name: _escaped(value) for name, value in values.items()})


def _filled(part: Any, values: Mapping[str, str]) -> Any:
    if isinstance(part, str):
        return _PLACEHOLDER.sub(lambda found: values[found[1]], part)
    if isinstance(part, list):
        return [_filled(one, values) for one in part]
    if isinstance(part, dict):
        return {key: _filled(value, values) for key, value in part.items()}
    return part


def _escaped(text: str) -> str:
    """Escape what Slack takes for links and mentions: https://docs.slack.dev/messaging."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# -- mail


def _mail(target: Target, notification: Notification, link: str) -> None:
    try:
        from airflow.providers.smtp.hooks.smtp import SmtpHook
    except ImportError:
        raise _failure("mail needs Airflow's provider smtp") from None

    lines = [html.escape(line) for line in notification.lines]
    if notification.page:
        lines.append(f'<a href="{html.escape(link)}">{html.escape(link)}</a>')
    with SmtpHook(smtp_conn_id=target.connection_id) as hook:
        hook.send_email_smtp(
            to=target.name,
            subject=f"[{notification.severity}] {notification.title}",
            html_content=f"<p>{html.escape(notification.title)}</p><p>{'<br>'.join(lines)}</p>",
        )
