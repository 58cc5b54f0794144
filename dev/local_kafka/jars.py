"""Apache Kafka's jars, fetched once from Maven Central with the Ivy that ships inside pyspark.

    classpath = kafka_jars("4.3.1") / "*"

They are kept in `~/.cache/counterpoise/kafka/<version>/` (or below XDG_CACHE_HOME), complete or not
at all. Set COUNTERPOISE_MAVEN_REPOSITORY to the address of a mirror to fetch from there.

Beside the jars is an archive of Kafka's classes as a JVM loads them (class data sharing, JEP 350):
with it a broker starts on little more than half of the processor time. A broker that was started
with `options_to_write_archive` writes it at an orderly stop; without it everything works as well.
And there are the first records of a cluster's metadata log, which Kafka's tool has written for the
first cluster of this version: they are the same for each.

Limits: Kafka 3.9 and 4.x, whose output goes to log4j 2; no Kafka Connect; one class archive per
Java and version of Kafka.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from counterpoise.errors import CounterpoiseError
from counterpoise.java_runtime import cache_directory, java_executable
from dev.local_processes import run

KAFKA_VERSION = "4.3.1"
MIRROR = "COUNTERPOISE_MAVEN_REPOSITORY"
COMPLETE = ".complete"
DOWNLOAD_TIMEOUT_SECONDS = 600

WRITES_ARCHIVE = "-XX:ArchiveClassesAtExit"

# A JVM that cannot use an archive says so on standard output, among the output of Kafka's tools.
_QUIET_ARCHIVE = "-Xlog:cds*=off"

# By default Ivy looks for sources and javadoc of every module, which takes half of the time.
_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="maven"/>
  <property name="ivy.maven.lookup.sources" value="false"/>
  <property name="ivy.maven.lookup.javadoc" value="false"/>
  <caches defaultCacheDir={cache}/>
  <resolvers><ibiblio name="maven" m2compatible="true" {root}/></resolvers>
</ivysettings>
"""

# Kafka's POMs name log4j-core 2.25.4 and slf4j 1.7; without log4j-slf4j-impl, which connects the
# two, brokers log nothing. Kafka 3.9 would connect slf4j to log4j 1, of which it needs classes
# only.
_MODULES = """\
<ivy-module version="2.0">
  <info organisation="local" module="kafka"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev={version} conf="default->default"/>
    <dependency org="org.apache.kafka" name="kafka-tools" rev={version} conf="default->default"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="2.25.4"
                conf="default->default"/>
    <exclude org="org.apache.kafka" module="connect-runtime"/>
    <exclude org="org.slf4j" module="slf4j-reload4j"/>
  </dependencies>
</ivy-module>
"""


class KafkaDownloadError(CounterpoiseError):
    """Kafka's jars could not be fetched; the message has the end of Ivy's output."""

    retryable = True


def kafka_jars(version: str = KAFKA_VERSION) -> Path:
    """Return the directory with the jars of this Kafka version.

    The first call fetches them (45 MB, about a minute). Raises KafkaDownloadError and NoJavaError.
    """
    directory = cache_directory() / "kafka" / version
    if (directory / COMPLETE).exists():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    with locked(directory.parent / f".{version}.lock"):
        if not (directory / COMPLETE).exists():
            _fetch(version, directory)
    return directory


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file lock, which the system releases even when its holder is killed."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(version: str, directory: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{version}-", dir=directory.parent) as scratch_name:
        scratch = Path(scratch_name)
        _run_ivy(version, scratch)
        jars = scratch / "jars"
        for module in ("kafka_2.13", "kafka-tools"):
            if not (jars / f"{module}-{version}.jar").exists():
                raise KafkaDownloadError(
                    f"Kafka {version} was fetched without {module}-{version}.jar; try again"
                )
        (jars / COMPLETE).touch()
        shutil.rmtree(directory, ignore_errors=True)
        jars.rename(directory)


def _run_ivy(version: str, scratch: Path) -> None:
    mirror = os.environ.get(MIRROR)
    settings = _SETTINGS.format(
        cache=quoteattr(str(scratch / "ivy")), root=f"root={quoteattr(mirror)}" if mirror else ""
    )
    (scratch / "ivysettings.xml").write_text(settings)
    (scratch / "ivy.xml").write_text(_MODULES.format(version=quoteattr(version)))
    command: list[str | Path] = [java_executable(), "-jar", _ivy_jar()]
    command += ["-settings", "ivysettings.xml", "-ivy", "ivy.xml"]
    command += ["-confs", "default", "-types", "jar", "bundle"]
    command += ["-retrieve", "jars/[artifact]-[revision](-[classifier]).[ext]"]
    try:
        result = run(
            command,
            cwd=scratch,
            name="the download of Kafka",
            timeout_seconds=DOWNLOAD_TIMEOUT_SECONDS,
        )
    except TimeoutError as error:
        raise KafkaDownloadError(
            f"Kafka {version} was not fetched in {DOWNLOAD_TIMEOUT_SECONDS} s; try again"
        ) from error
    if result.returncode != 0:
        raise KafkaDownloadError(
            f"Kafka {version} could not be fetched from {mirror or 'Maven Central'}:\n"
            f"{_last_messages(result.stdout + result.stderr)}\n"
            f"Check the network, or set {MIRROR} to the address of a mirror."
        )


def _last_messages(output: str) -> str:
    """Return the last errors and warnings of Ivy's output, or its last lines where it has none."""
    words = ("not found", "Exception", "ERROR", "WARN", "unresolved")
    lines = [line.strip() for line in output.splitlines()]
    messages = [line for line in lines if any(word in line for word in words)]
    return "\n".join(f"  {line}" for line in (messages or lines)[-12:])


def _ivy_jar() -> Path:
    spec = find_spec("pyspark")
    folders = spec.submodule_search_locations if spec else None
    jars = sorted(Path(next(iter(folders))).glob("jars/ivy-*.jar")) if folders else []
    if not jars:
        raise KafkaDownloadError(
            "no jars/ivy-*.jar inside pyspark; install pyspark from requirements.txt"
        )
    return jars[-1]


# -- what is made from them once


def features_of(jars: Path) -> Path:
    """Return where the features' levels of a new cluster are kept, as Kafka's tool writes them."""
    return jars / "bootstrap.checkpoint"


def keep(file: Path, path: Path) -> None:
    """Copy a file to where it is seen complete or not at all."""
    with tempfile.TemporaryDirectory(prefix=".kept-", dir=path.parent) as scratch:
        Path(shutil.copy(file, scratch)).replace(path)


def class_archive_options(jars: Path) -> list[str]:
    """Return the JVM's options to start from the class archive; none while there is none."""
    archive = class_archive_of(jars)
    return [f"-XX:SharedArchiveFile={archive}", _QUIET_ARCHIVE] if archive.exists() else []


def options_to_write_archive(archive: Path) -> list[str]:
    """Return the JVM's options to write a class archive when it ends."""
    return [f"{WRITES_ARCHIVE}={archive}", _QUIET_ARCHIVE]


def class_archive_of(jars: Path) -> Path:
    """Return where the class archive of these jars is, or will be, for the Java in use."""
    java = java_executable().resolve()
    identity = hashlib.sha256(f"{java} {java.stat().st_mtime_ns}".encode()).hexdigest()[:12]
    return jars / f"classes-{identity}.jsa"
