"""What documents name is there: paths of the map, commands, environment variables with their
defaults, versions and images.
"""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

from counterpoise.cli.main import build_parser, leaf_commands
from counterpoise.settings import Locations
from dev.local_kafka import KAFKA_VERSION

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "plugins" / "counterpoise"
MAP = ROOT / "docs" / "architecture.md"
# Folders of the store and names of Dags and tasks, which are no files of the project.
STORE = ("history/<", "history/snapshots", "results/", "views/", "aside/", "plans/", "audits/")
DOCUMENTS = sorted(
    path
    for top in ("*.md", "docs/*.md", "tests/*.md")  # decisions tell of their time
    for path in ROOT.glob(top)
)
NAMED_IN = (
    "plugins",
    "dags",
    "demo",
    "dev",
    "benchmarks",
    "config",
    "docker",
    "spark_jobs",
    "tests",
)
NAMED = re.compile(r"docs/[\w/-]+\.md(?:#[\w-]+)?")
CHAPTER = re.compile(r"docs/([\w-]+\.md), ([A-Z][\w ]+[a-z])")
WITH_COMMANDS = [
    *DOCUMENTS,
    *(ROOT / "docker").glob("*"),
    ROOT / "docker-compose.yaml",
    *(ROOT / "docs/monitoring").glob("*"),
    *PACKAGE.rglob("*.html"),
]
TYPED = re.compile(r"(?:(?<=`)|exec scheduler )counterpoise ([a-z][a-z-]*)")
CODE = ("fence", "code_block")
PARAGRAPH = "paragraph_open"
VARIABLE = re.compile(r"COUNTERPOISE_[A-Z_]+")


def named_paths() -> list[str]:
    words = re.findall(r"`([\w./<>-]+)`", MAP.read_text())
    paths = [word for word in words if "/" in word or word.endswith(".py")]
    return [path for path in paths if not path.startswith(STORE) and path != "reports/"]


def test_every_path_of_the_map_exists() -> None:
    missing = []
    for path in named_paths():
        folders = [ROOT, PACKAGE, *(PACKAGE / room for room in ("planning", "execution"))]
        if not any((folder / path).exists() for folder in folders):
            missing.append(path)
    assert len(named_paths()) > 30
    assert missing == []


def blocks(document: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each block of a document as a web page shows it: what it is, and its lines."""
    text = document.read_text()
    lines = text.splitlines()
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.map and token.type in (*CODE, PARAGRAPH):
            yield token.type, lines[token.map[0] : token.map[1]]


@pytest.mark.parametrize("path", WITH_COMMANDS, ids=lambda path: path.name)
def test_every_command_that_is_named_is_there(path: Path) -> None:
    there = {name.split()[0] for name, _ in leaf_commands(build_parser())}
    if path.is_file():
        assert set(TYPED.findall(path.read_text())) <= there


def commands_of(document: Path) -> list[str]:
    code = "\n".join(line for kind, lines in blocks(document) if kind in CODE for line in lines)
    whole = code.replace("\\\n", " ")
    found = re.findall(
        r"^ *(?:docker-compose exec scheduler )?counterpoise (.*)$", whole, re.MULTILINE
    )
    return [re.split(r" +#| +\|| +>|\)$", words)[0] for words in found]


@pytest.mark.parametrize(
    "document", [each for each in DOCUMENTS if commands_of(each)], ids=lambda path: path.name
)
def test_every_line_with_a_command_can_be_typed(document: Path) -> None:
    for words in commands_of(document):
        build_parser().parse_args(shlex.split(words))


def described_variables() -> dict[str, str]:
    """Return the variables of docs/install.md, each with its default as it stands there."""
    text = (ROOT / "docs" / "install.md").read_text()
    section = text.split("## Environment variables")[1].split("\n## ")[0]
    found = {}
    for names, default in re.findall(r"^\| (`COUNTERPOISE_[^|]*) \|([^|]*)\|", section, re.M):
        whole = ""
        for name in re.findall(r"`([^`]+)`", names):
            is_ending = name.startswith("...")  # of the name before, in the place of its own
            ending = name.removeprefix("...")
            whole = whole.rsplit("_", ending.count("_"))[0] + ending if is_ending else name
            found[whole] = default.strip()
    return found


def variables_that_are_read() -> set[str]:
    """Return the names in the code; a name that is put together of parts is told by its parts."""
    found: set[str] = set()
    folders = (ROOT / "plugins", ROOT / "dags", ROOT / "dev", ROOT / "spark_jobs")
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= {node.value} if VARIABLE.fullmatch(node.value) else set()
    return found


def test_every_variable_is_described_and_every_described_one_is_read() -> None:
    described = set(described_variables())
    pools = {f"COUNTERPOISE_{purpose}_POOL" for purpose in ("SNAPSHOT", "AUDIT", "WATCH", "RUN")}
    told = {
        f"COUNTERPOISE_{place}_{how}" for place in ("LEDGER", "STORE") for how in ("CMD", "FILE")
    }
    assert pools | told <= described
    assert described - pools - told == variables_that_are_read()


def schedules() -> dict[str, str]:
    """Return the crons of the Dags by their variables."""
    texts = "\n".join(path.read_text() for path in (ROOT / "dags").glob("*.py"))
    return dict(re.findall(r'environ\.get\("(\w+_SCHEDULE)"\) or "([^"]+)"', texts))


def test_defaults_are_as_described() -> None:
    described = described_variables()
    home = "/x"
    used = Locations.from_environment({"COUNTERPOISE_HOME": home})
    assert described["COUNTERPOISE_CONFIG"] == f"`{used.config.relative_to(home)}`"
    assert described["COUNTERPOISE_STORE"] == f"`{Path(used.store).relative_to(home)}`"
    assert described["COUNTERPOISE_LEDGER"] == f"`{used.ledger.replace(f'{home}/', '')}`"
    assert described["COUNTERPOISE_SPARK_MASTER"] == f"`{used.spark_master}`"
    assert len(schedules()) == 3
    for name, cron in schedules().items():
        assert described[name] == f"`{cron}`", name


def test_docker_compose_has_the_same_defaults() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())["services"]
    variables = services["scheduler"]["environment"]
    for name in schedules().keys() & variables.keys():
        assert variables[name] == f"${{{name}:-{schedules()[name]}}}"


def pinned(package: str) -> str:
    text = (ROOT / "requirements.txt").read_text()
    (version,) = re.findall(rf"^{package}==(\S+)", text, re.MULTILINE)
    return str(version)


def test_versions_that_are_named_are_those_of_the_tests() -> None:
    install = (ROOT / "docs" / "install.md").read_text()
    assert f"with Airflow {pinned('apache-airflow')} (" in install
    assert set(re.findall(r"Airflow (3\.\d+\.\d+)", install)) == {pinned("apache-airflow")}
    assert f"(PySpark {pinned('pyspark').rpartition('.')[0]})" in install
    (older,) = re.findall(r"^OLDER_KAFKA := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert f"tested with {KAFKA_VERSION}, and {older} with" in (ROOT / "README.md").read_text()
    assert f"Tested with {KAFKA_VERSION} in KRaft mode; with {older} " in install


def test_images_that_are_to_be_pinned_are_those_that_are_started() -> None:
    install = (ROOT / "docs" / "install.md").read_text()
    named = dict(re.findall(r"^    pin (\w+_IMAGE) (\S+)$", install, re.MULTILINE))
    compose = (ROOT / "docker-compose.yaml").read_text()
    started = dict(re.findall(r"image: \$\{(\w+_IMAGE):-(\S+)\}", compose))
    assert named == {name: image for name, image in started.items() if "counterpoise" not in image}
    assert named["KAFKA_IMAGE"].endswith(f":{KAFKA_VERSION}")
    (base,) = re.findall(r"^FROM (\S+)$", (ROOT / "docker/Dockerfile").read_text(), re.MULTILINE)
    assert f"    base={base};" in install


def test_every_benchmark_that_can_be_typed_is_in_its_document() -> None:
    document = (ROOT / "docs" / "benchmarks.md").read_text()
    typed = [
        path.name
        for path in (ROOT / "benchmarks").glob("*.py")
        if "benchmarks/" + path.name in (path.read_text().split('"""')[1])
    ]
    assert len(typed) > 10
    assert [name for name in sorted(typed) if f"benchmarks/{name}" not in document] == []


def test_every_file_of_tests_and_benchmarks_that_a_document_names_is_there() -> None:
    named = {
        path
        for document in (*DOCUMENTS, *(ROOT / "docs/decisions").glob("*.md"))
        for path in re.findall(r"(?:tests|benchmarks|dev)/[\w/]+\.py", document.read_text())
    }
    assert len(named) > 20
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def texts_that_name_documents() -> Iterator[tuple[str, str]]:
    """Yield the files outside of docs/ whose texts lead a reader to a document."""
    endings = {".py", ".yaml", ".yml", ".html", ".env", ".sh", ".js", ".toml", ".in"}
    files = [path for folder in NAMED_IN for path in (ROOT / folder).rglob("*")]
    for path in (*files, *(ROOT / "docs/monitoring").glob("*"), ROOT / "Makefile"):
        if path.is_file() and (path.suffix in endings or path.name == "Makefile"):
            yield path.relative_to(ROOT).as_posix(), path.read_text()


def headings(document: Path) -> list[str]:
    return re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)


def test_every_document_that_code_names_is_there_with_its_chapter() -> None:
    """As messages, help texts, alerts and comments name them: `docs/install.md, Store`."""
    lost, found = [], 0
    for name, text in texts_that_name_documents():
        for words in NAMED.findall(text):
            path, _, anchor = words.partition("#")
            found += 1
            if not (ROOT / path).exists() or (anchor and anchor not in anchors(ROOT / path)):
                lost.append(f"{name}: {words}")
        for path, words in CHAPTER.findall(" ".join(text.split())):
            document = ROOT / "docs" / path
            chapters = headings(document) if document.exists() else []
            if not any(words.startswith(chapter) for chapter in chapters):
                lost.append(f"{name}: {path}, {words}")
    assert found > 40
    assert lost == []


def anchors(document: Path) -> set[str]:
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")
        for heading in headings(document)
    }
