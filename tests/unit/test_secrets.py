"""No secret is shown: not by values that hold one, not in messages, not in what commands print."""

import logging
import pprint
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.pretty import pretty_repr

from counterpoise.errors import CounterpoiseError
from counterpoise.installation import Installation, _OneConnection, open_installation
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.kafka_admin.tokens import Token
from counterpoise.settings import FileConnections, Locations
from counterpoise.storage import Store
from tests.support.command_line import CommandLine

SECRET = "s3cr3t-never-shown"
_ENVIRONMENT = {
    "COUNTERPOISE_STORE": f"s3://bucket/x?endpoint_override={SECRET}",
    "COUNTERPOISE_LEDGER": f"postgresql+psycopg://us:{SECRET}@127.0.0.1:1/x?password={SECRET}",
    "COUNTERPOISE_SPARK_CONF": f"spark.hadoop.fs.s3a.secret.key={SECRET}",
    "AIRFLOW_CONN_KAFKA": f'{{"extra": {{"sasl.password": "{SECRET}"}}}}',
}
_KAFKA = {
    "bootstrap.servers": "127.0.0.1:1",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "us",
    "sasl.password": SECRET,
}


def _values() -> Iterator[object]:
    """Return one of everything that holds a secret."""
    locations = Locations.from_environment(_ENVIRONMENT)
    yield locations
    yield locations.ledger_address
    yield FileConnections(Path("connections.yaml"), _ENVIRONMENT)
    yield _OneConnection(f"us:{SECRET}@127.0.0.1:1")
    yield ConnectionSettings.parse(_KAFKA)
    yield ConnectionSettings.parse(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "us",
            "sasl.oauthbearer.client.secret": SECRET,
            "sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/",
        }
    )
    yield Token(SECRET, 0.0, "us")
    yield open_installation(environment=_ENVIRONMENT)


@pytest.mark.parametrize("shown_by", [repr, str, pprint.pformat, pretty_repr])
def test_values_that_hold_a_secret_do_not_show_it(shown_by: Callable[[object], str]) -> None:
    for value in _values():
        assert SECRET not in shown_by(value), type(value).__name__


def test_a_traceback_with_local_values_shows_no_secret() -> None:
    def fails(installation: Installation) -> None:
        locations, connections = installation.locations, installation.connections
        raise CounterpoiseError(f"{locations} {connections}")

    try:
        fails(open_installation(environment=_ENVIRONMENT))
    except CounterpoiseError as error:
        found = traceback.TracebackException.from_exception(error, capture_locals=True)
        text = "".join(found.format())
    assert "locations = Locations" in text and SECRET not in text


@pytest.mark.parametrize(
    "uri",
    [
        f"s3://KEY:{SECRET}/b@bucket",
        f"s3://KEY:123/{SECRET}@bucket/x",
        f"s3://KEY:{SECRET}@bucket/x",
        f"s3a://{SECRET}@bucket/x",
        f"s3:/KEY:{SECRET}@bucket/x",
        f"s3://bucket/x?secret_key={SECRET}",
        f"s3://bucket/x?scheme={SECRET}",
        f"s3://bucket/x?endpoint_override=http://us:{SECRET}@127.0.0.1:1",
        f"gs://bucket/x?retry_limit_seconds={SECRET}",
        f"abfs://box:{SECRET}@us.dfs.core.windows.net/x",
        f"abfs://box@us.dfs.core.windows.net/x?client_secret={SECRET}",
        f"ftp://us:{SECRET}@127.0.0.1:1/x",
        f"simplecache::s3://KEY:{SECRET}@bucket/x",
        f"https://127.0.0.1:1/x?sig={SECRET}",
        f"S3://{SECRET}@bucket/x",
        f"S3://KEY:123/{SECRET}@bucket/x",
        f"s3://KEY:123/{SECRET}?x@bucket/x",
        f" s3://KEY:{SECRET}#x@bucket",
        f"s3://KEY:{SECRET}?x@bucket",
        f"s3://KEY:{SECRET}#x@bucket",
        f"s3:KEY:{SECRET}@bucket",
        f"s3:/KEY:{SECRET}://x@bucket",
        f"s3a://KEY%3A{SECRET}/b@bucket",
        f"gs://{SECRET}@bucket/x",
        f"gs://bucket/x?{SECRET}",
        f"s3://bucket/x?secret_key=a&{SECRET}",
        f"s3://bucket/x?secret_key=a\n{SECRET}",
        f"s3://bucket/x#{SECRET}?",
        f"ftp://{SECRET}@127.0.0.1:1/x",
        f"ftp://us:{SECRET}#x@127.0.0.1:1/x",
        f"https://{SECRET}@127.0.0.1:1/x",
        f"file://{SECRET}@host/x",
        f"simplecache::https://{SECRET}@bucket/x",
        f"simplecache::s3://KEY:{SECRET}#@bucket/x",
    ],
)
def test_a_store_that_cannot_be_opened_is_told_without_secrets(uri: str) -> None:
    with pytest.raises(CounterpoiseError) as caught:
        Store(uri)
    text = "".join(traceback.format_exception(caught.value))
    assert SECRET not in text and "store" in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("s3://bucket/x?secret_key=a", "Unexpected query parameter in S3 URI: 'secret_key'"),
        ("abfs://box@us.dfs.core.windows.net/x?nosuch=a", "'abfs://box@us.dfs.core.windows.net/x'"),
        ("ftp://127.0.0.1:1/a@b", "store 'ftp://***@b' cannot be opened"),
    ],
)
def test_a_store_that_cannot_be_opened_is_told_with_its_place(uri: str, said: str) -> None:
    with pytest.raises(CounterpoiseError) as caught:
        Store(uri)
    assert said in str(caught.value)


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    for name in ("team@example", "a:b", "s3", "s3#x"):
        Store(str(tmp_path / name)).write_text("x", "text")
        assert (tmp_path / name / "x").read_text() == "text"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("COUNTERPOISE_STORE", f"s3://KEY:{SECRET}/b@bucket"),
        ("COUNTERPOISE_STORE", f"s3://bucket/x?secret_key={SECRET}"),
        ("COUNTERPOISE_STORE_FILE", f"s3://KEY:{SECRET}/b@bucket"),
        ("COUNTERPOISE_LEDGER", f"postgresql+psycopg://us:{SECRET}@127.0.0.1:1/x"),
        ("COUNTERPOISE_LEDGER", f"postgresql+psycopg://127.0.0.1:1/x?password={SECRET}"),
        ("COUNTERPOISE_LEDGER", f"nosuch://us:{SECRET}@h/x"),
        ("COUNTERPOISE_LEDGER", SECRET),
        ("COUNTERPOISE_LEDGER", f"postgresql+psycopg://us:a@{SECRET}@127.0.0.1:1/x"),
        ("COUNTERPOISE_LEDGER", f"postgresql+psycopg://u/s:{SECRET}@127.0.0.1:1/x"),
        ("COUNTERPOISE_LEDGER", f"postgresql+psycopg://127.0.0.1:1/x?password=a@{SECRET}"),
        ("COUNTERPOISE_LEDGER", f"postgresql+psycopg://us:a@{SECRET}@/x?host=127.0.0.1&port=1"),
        ("COUNTERPOISE_LEDGER", f"sqlite://us:a@{SECRET}@h/x"),
        ("COUNTERPOISE_LEDGER", f"sqlite://u/s:{SECRET}@h/x"),
        ("COUNTERPOISE_LEDGER_FILE", f"postgresql+psycopg://us:{SECRET}@127.0.0.1:1/x"),
        ("COUNTERPOISE_SPARK_CONF", f"spark.hadoop.fs.s3a.secret.key=x {SECRET}"),
        ("COUNTERPOISE_SPARK_CONF", f"spark.hadoop.fs.s3a.secret.key='{SECRET}"),
        ("COUNTERPOISE_SPARK_CONF", f"fs.s3a.secret.key={SECRET}"),
        ("COUNTERPOISE_SPARK_ENV", f"AWS_SECRET_ACCESS_KEY={SECRET}"),
        ("AIRFLOW_CONN_KAFKA", f'{{"extra": "{SECRET}"}}'),
        ("AIRFLOW_CONN_KAFKA", f"kafka://us:{SECRET}@127.0.0.1:1"),
        ("AIRFLOW_CONN_KAFKA", f'{{"extra": {{"bootstrap.servers": "us:{SECRET}@a:1"}}}}'),
        ("AIRFLOW_CONN_KAFKA", f'{{"extra": {{"bootstrap.servers": "us:{SECRET},x@a:1"}}}}'),
        ("AIRFLOW_CONN_KAFKA", f'{{"extra": {{"bootstrap.servers": "us:x,{SECRET},y@a:1,b"}}}}'),
    ],
)
def test_no_command_shows_a_secret_of_the_environment(
    variable: str,
    value: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    shell = CommandLine.in_folder(tmp_path, capsys)
    shell.configure("127.0.0.1:1")
    for name in (variable, variable.removesuffix("_FILE")):
        shell.environment.pop(name, None)
    shell.environment[variable] = value
    codes = set()
    with caplog.at_level(logging.DEBUG):
        for words in (
            ("snapshot", "--cluster", "demo"),
            ("report", "--cluster", "demo"),
            ("status", "run-1"),
            ("ledger", "migrate"),
        ):
            typed = shell.type(*words)
            codes.add(typed.code)
            assert SECRET not in typed.out + typed.err, words
            assert "Traceback" not in typed.err
    assert codes & {2, 3}, "somebody needed it"
    assert SECRET not in caplog.text
