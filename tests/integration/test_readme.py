"""What README and documents say is true: every command runs on a real cluster, every link leads
somewhere.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dev import local_kafka
from dev.local_kafka import LocalKafka, TopicSpec, brokers_in_racks, create_topics, fill
from dev.local_processes import run

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path for top in ("*.md", "docs/**/*.md", "tests/*.md") for path in ROOT.glob(top)
)
FOREIGN = ("COUNTERPOISE", "AIRFLOW", "PYTHONDONTWRITEBYTECODE")
NOT_OF_A_CLONE = {".git", ".venv", "config", "var"}
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^```text\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """Three brokers, the third without partitions, as in README and quickstart."""
    with local_kafka.running(
        tmp_path_factory.mktemp("kafka"), brokers_in_racks("a", "b", "c")
    ) as cluster:
        create_topics(cluster.bootstrap_string, [TopicSpec("returns", [(1, 2)] * 6)])
        fill(cluster.bootstrap_string, "returns", dict.fromkeys(range(6), 100_000))
        yield cluster


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a fresh clone after `make setup`, where commands write their files."""
    folder = tmp_path_factory.mktemp("clone")
    for path in ROOT.iterdir():
        if path.name not in NOT_OF_A_CLONE:
            (folder / path.name).symlink_to(path)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


@pytest.mark.parametrize("name", ["README.md", "docs/quickstart.md"])
def test_the_commands_of_a_document_run_in_their_order(
    name: str, kafka: LocalKafka, clone: Path
) -> None:
    """As one shell script that ends at the first failure, given $BOOTSTRAP and nothing else."""
    text = (ROOT / name).read_text()
    script = clone.parent / f"{Path(name).stem}.sh"
    script.write_text("set -euxo pipefail\n" + "".join(SHELL.findall(text)))
    environment = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
    # Many commands start Python anew: what the first one compiles, the next ones find.
    environment |= {
        "BOOTSTRAP": kafka.bootstrap_string,
        "COUNTERPOISE_HOME": str(clone),  # its code is a link to that of another clone
        "PYTHONPYCACHEPREFIX": str(clone.parent / "compiled"),
    }
    done = run(["bash", script], name=name, timeout_seconds=1000, cwd=clone, env=environment)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "is as planned" in done.stdout
    printed = "\n".join(line.rstrip() for line in done.stdout.splitlines())
    for shown in SHOWN.findall(text):
        assert shown in printed, "what a document shows is what is printed"


@pytest.mark.parametrize("target", ["setup", "demo", "test", "lint"])
def test_the_make_targets_exist(target: str) -> None:
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("python", "says"),
    [("no-such-python", "was not found"), ("other-python", "is another Python than 3.11")],
)
def test_make_setup_says_which_python_it_wants(python: str, says: str, tmp_path: Path) -> None:
    """Before anything is made: the pinned packages are those of one Python."""
    for name in ("Makefile", "pyproject.toml", "requirements.txt"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    other = tmp_path / "other-python"
    other.write_text("#!/bin/sh\nexit 1\n")  # as when it is asked whether it is the right one
    other.chmod(0o755)
    variables = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["make", "setup", f"PYTHON={python}"],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2
    assert f"make setup: {python} {says}; install Python 3.11, or say where" in done.stderr
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    """Files are there; a heading that is named is in its document, a test that is named in its
    file.
    """
    lost = []
    for link in LINK.findall(CODE.sub("", document.read_text())):
        where = urlsplit(link)
        if where.scheme:
            continue
        target = (document.parent / where.path).resolve() if where.path else document
        if not target.exists() or (where.fragment and where.fragment not in anchors(target)):
            lost.append(link)
    assert not lost


def anchors(path: Path) -> set[str]:
    """Names that a link may end in: tests of a Python file, headings of a document as web pages
    show them.
    """
    text = path.read_text()
    if path.suffix == ".py":
        return set(re.findall(r"^def (test_\w+)", text, re.MULTILINE))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }
