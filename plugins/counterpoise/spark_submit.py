"""Runs a Spark job with the `spark-submit` of the installed pyspark, as a child process.

    script = Path("spark_jobs/leader_balance.py")
    run_job(script, ["--store", uri, "--round", "r1", "--snapshots", "s.json"], log=print)

What the job prints goes to `log` line by line, without Spark's own start-up messages. Whatever ends
this function (also Ctrl-C, SIGTERM and a killed parent) ends the JVM and the job's Python. Nothing
is written to the current directory.

Settings reach Spark in a file that only this user may read, never in the list of processes. The
job gets the few environment variables that Spark, Java and Python read, and those that `pass_on`
names; with a remote master also those that hold an object store's credentials.

Limits: POSIX only. Client mode: the driver runs on this machine.
"""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final

from counterpoise.errors import CounterpoiseError
from counterpoise.java_runtime import spark_java_home

# For short jobs, which are mostly Spark's start: optimizing compilation takes longer than it saves.
START_FAST: Final = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
_STOP_SECONDS: Final = 10.0
_PASSED_ON: Final = re.compile(
    r"(PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|TZ|TMPDIR|LD_LIBRARY_PATH|KRB5CCNAME|KRB5_CONFIG)"
    r"|(LC|JAVA|SPARK|HADOOP|YARN|XDG)_.*"
)
# A remote Spark reads the store itself; a local one reads copies.
_STORE_CREDENTIALS: Final = re.compile(r"(AWS|AZURE|GOOGLE|GCS|OSS)_.*")
_MAX_LINES_KEPT: Final = 400
_MAX_LINES_SHOWN: Final = 15

_LOG4J2: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark %p %c{1}: %m%n%ex{0}
"""

# Printed by the JVM and the launcher before any logging is set up.
_NOISE: Final = re.compile(
    r"WARNING: (Using incubator|A restricted method|A terminally deprecated|java\.lang|sun\.misc|"
    r"Use --|Please)"
    r"|OpenJDK 64-Bit Server VM warning|SLF4J|Using Spark's|Picked up |:: |\s*$"
)
_STACK: Final = re.compile(
    r"\s+at |\s+File \"|\s+\.\.\. |\s*Traceback |at (org|java|scala|py4j|jdk)\.|\s*\^+\s*$"
    r"|[\w.$/<>]+\((\w+\.(java|scala):\d+|Native Method|Unknown Source)\)$"
)

# PR_SET_PDEATHSIG: the kernel sends SIGTERM to the child when the parent dies, and exec keeps that
# setting (prctl(2)).
_LAUNCH: Final = (
    "import ctypes, os, sys\n"
    "sys.platform == 'linux' and ctypes.CDLL(None).prctl(1, 15, 0, 0, 0)\n"
    "os.getppid() == int(sys.argv[1]) or sys.exit(143)\n"
    "os.umask(os.umask(0o027) | 0o007)\n"
    "os.execv(sys.argv[2], sys.argv[2:])\n"
)


class SparkJobError(CounterpoiseError):
    """A Spark job failed; the message ends with its last lines.

    `exit_status` is that of spark-submit.
    """

    retryable = True

    def __init__(self, message: str, exit_status: int) -> None:
        self.exit_status = exit_status
        super().__init__(message)


def run_job(
    script: Path,
    arguments: Sequence[str],
    *,
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
    pass_on: Collection[str] = (),
    log: Callable[[str], None],
    timeout_seconds: float | None = None,
) -> None:
    """Run `script` to its end.

    `conf` overrides the settings made here, such as `spark.driver.memory`; `pass_on` names further
    environment variables that the job needs. Raises SparkJobError when the job does not end with 0,
    or not within `timeout_seconds`, and NoJavaError when there is no Java for Spark.
    """
    if not script.is_file():
        raise SparkJobError(f"the Spark job {script} does not exist", 2)
    with tempfile.TemporaryDirectory(prefix="counterpoise-spark-") as scratch:
        command = _command(script.resolve(), arguments, master, conf or {}, Path(scratch))
        lines: deque[str] = deque(maxlen=_MAX_LINES_KEPT)
        with (
            _child(command, _environment(master, pass_on)) as child,
            _ended_after(timeout_seconds, child) as is_late,
        ):
            assert child.stdout is not None, "the child is started with a pipe"
            for raw_line in child.stdout:
                line = raw_line.rstrip()
                if _NOISE.match(line):
                    continue
                lines.append(line)
                if not _STACK.match(line):
                    log(line)
            exit_status = child.wait()
    if is_late.is_set():
        raise SparkJobError(
            f"the Spark job {script.name} did not end within {timeout_seconds:g} s", exit_status
        )
    if exit_status:
        raise SparkJobError(_failure(script, exit_status, lines), exit_status)


def _failure(script: Path, exit_status: int, lines: Sequence[str]) -> str:
    messages = [line for line in lines if not _STACK.match(line)]
    how = f"ended with exit status {exit_status}"
    if exit_status < 0:
        how = f"was ended by signal {-exit_status}"
    shown = [f"  {line}" for line in messages[-_MAX_LINES_SHOWN:]]
    return "\n".join([f"the Spark job {script.name} {how}", *shown])


def _command(
    script: Path, arguments: Sequence[str], master: str, conf: Mapping[str, str], scratch: Path
) -> list[str]:
    log4j2 = scratch / "log4j2.properties"
    log4j2.write_text(_LOG4J2, encoding="utf-8")
    settings = _defaults(master, scratch) | dict(conf)
    java_options = " ".join(
        [
            f"-Dlog4j2.configurationFile={log4j2.as_uri()}",
            f"-Djava.io.tmpdir={scratch}",
            f"-Dderby.system.home={scratch}",
        ]
    )
    key = "spark.driver.extraJavaOptions"
    settings[key] = f"{java_options} {conf[key]}" if key in conf else java_options
    properties = scratch / "spark.properties"
    properties.touch(mode=0o600)
    lines = [f"{name}={_property_value(value)}\n" for name, value in sorted(settings.items())]
    properties.write_text("".join(lines), encoding="utf-8")
    spark_submit = str(_spark_home() / "bin" / "spark-submit")
    options = ["--master", master, "--properties-file", str(properties), "--load-spark-defaults"]
    return [spark_submit, *options, str(script), *arguments]


def _property_value(value: str) -> str:
    r"""Return a value as java.util.Properties reads it back: `a\b` is written as `a\\b`."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _defaults(master: str, scratch: Path) -> dict[str, str]:
    """Return settings for small histories on one machine.

    With a remote master the driver must be reachable from it, so its address is not set.
    """
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        # Every aggregation and join of a task allocates a memory page first. Spark's default of
        # 32 MiB would be nearly empty.
        "spark.buffer.pageSize": "1m",
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
    }
    if master.startswith("local"):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(scratch),
        }
    return settings


def _environment(master: str, pass_on: Collection[str]) -> dict[str, str]:
    """Return what the job may know of this environment, with our package on the job's path.

    Driver and workers run the Python that runs this.
    """
    is_local = master.startswith("local")

    def is_passed_on(name: str) -> bool:
        may_know = _PASSED_ON.fullmatch(name) or name in pass_on
        return bool(may_know or (not is_local and _STORE_CREDENTIALS.fullmatch(name)))

    passed_on = {name: value for name, value in os.environ.items() if is_passed_on(name)}
    plugins = str(Path(__file__).resolve().parents[1])
    existing = os.environ.get("PYTHONPATH")
    variables = {
        "JAVA_HOME": str(spark_java_home()),
        "SPARK_HOME": str(_spark_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": f"{plugins}{os.pathsep}{existing}" if existing else plugins,
        "PYTHONUNBUFFERED": "1",
    }
    if is_local:
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    return passed_on | variables


def _spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SparkJobError(
            "pyspark is not installed here: pip install 'counterpoise[spark]', or in a source tree "
            "`make setup`",
            2,
        )
    return Path(spec.origin).parent


@contextmanager
def _child(
    command: Sequence[str], environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """Yield the child, in its own process group; the whole group is ended after the block."""
    launcher = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), *command]
    with _sigterm_as_exit():
        child = subprocess.Popen(
            launcher,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            yield child
        finally:
            _end_group(child)


@contextmanager
def _ended_after(
    timeout_seconds: float | None, child: "subprocess.Popen[str]"
) -> Iterator[threading.Event]:
    """End the child when its time is over; the event says whether it was."""
    is_late = threading.Event()

    def end() -> None:
        is_late.set()
        _signal_group(child.pid, signal.SIGKILL)

    timer = threading.Timer(timeout_seconds or 0, end)
    timer.daemon = True
    if timeout_seconds is not None:
        timer.start()
    try:
        yield is_late
    finally:
        timer.cancel()


def _end_group(child: subprocess.Popen[str]) -> None:
    """Send SIGTERM, wait for shutdown hooks, then send SIGKILL to the rest of the group."""
    if child.poll() is None:
        _signal_group(child.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout=_STOP_SECONDS)
    _signal_group(child.pid, signal.SIGKILL)
    child.wait()
    if child.stdout is not None:
        child.stdout.close()


def _signal_group(group_id: int, number: signal.Signals) -> None:
    try:
        os.killpg(group_id, number)
    except (ProcessLookupError, PermissionError):  # the group is empty (EPERM on macOS)
        return


@contextmanager
def _sigterm_as_exit() -> Iterator[None]:
    """Make SIGTERM run the `finally` blocks where it would end this process at once."""
    is_main_thread = threading.current_thread() is threading.main_thread()
    if not is_main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
