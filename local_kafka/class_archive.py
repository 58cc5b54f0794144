"""Kafka's classes as a JVM keeps them once read and checked (class data sharing, JEP 350), beside
the jars.

    [java, *archived_classes(jars), "-cp", f"{jars}/*", "kafka.Kafka", ...]

A broker starts on little more than half of the processor time. The archive is what a first broker
leaves that was started with `archive_at_exit` and stopped in good order; without one, all works as
before.

Limits: one archive per Java and version of Kafka.
"""

import hashlib
from pathlib import Path

from counterpoise.java_runtime import java_executable

# A JVM that cannot use an archive says so on standard output, where it would be taken for Kafka's
# words.
_QUIET = "-Xlog:cds*=off"


def archived_classes(jars: Path) -> list[str]:
    """The JVM's options to start from the archive, none while there is none."""
    archive = archive_of(jars)
    return [f"-XX:SharedArchiveFile={archive}", _QUIET] if archive.exists() else []


def archive_at_exit(archive: Path) -> list[str]:
    """The JVM's options to write an archive when it ends."""
    return [f"-XX:ArchiveClassesAtExit={archive}", _QUIET]


def archive_of(jars: Path) -> Path:
    """Where the archive of these jars is, or will be, for the Java in use."""
    java = java_executable().resolve()
    identity = hashlib.sha256(f"{java} {java.stat().st_mtime_ns}".encode()).hexdigest()[:12]
    return jars / f"classes-{identity}.jsa"
