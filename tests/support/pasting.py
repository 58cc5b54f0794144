"""An operator who pastes what the audit proposes: commands into a shell, the rest into files.

    operator = Operator(kafka, folder)
    operator.paste(finding["fix"])
    operator.restart_edited_brokers()

`environment` is that of our own commands. Commands run in bash as they stand, with Kafka's tools
on the PATH and `$BOOTSTRAP` set. Lines below a comment about server.properties are put into the
files of the brokers that it names, or of all; a comment that says to remove a key does so. Every
other comment changes nothing, as in a shell.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from dev.local_kafka import LocalKafka
from dev.local_processes import run

_TOOLS: Final = "org.apache.kafka.tools"
_CLASSES: Final = {
    "kafka-acls.sh": f"{_TOOLS}.AclCommand",
    "kafka-broker-api-versions.sh": f"{_TOOLS}.BrokerApiVersionsCommand",
    "kafka-cluster.sh": f"{_TOOLS}.ClusterTool",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups.sh": f"{_TOOLS}.consumer.group.ConsumerGroupCommand",
    "kafka-features.sh": f"{_TOOLS}.FeatureCommand",
    "kafka-leader-election.sh": f"{_TOOLS}.LeaderElectionCommand",
    "kafka-log-dirs.sh": f"{_TOOLS}.LogDirsCommand",
    "kafka-metadata-quorum.sh": f"{_TOOLS}.MetadataQuorumCommand",
    "kafka-reassign-partitions.sh": f"{_TOOLS}.reassign.ReassignPartitionsCommand",
    "kafka-topics.sh": f"{_TOOLS}.TopicCommand",
    "kafka-transactions.sh": f"{_TOOLS}.TransactionsCommand",
}
_FILE: Final = "server.properties"
_REMOVE: Final = re.compile(r"# remove ([a-z.]+)")
_BROKERS: Final = re.compile(r"brokers? (\d+(?:, \d+)*)")
TIMEOUT_SECONDS: Final = 300.0


class Operator:
    def __init__(
        self, kafka: LocalKafka, folder: Path, environment: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._kafka, self._folder = kafka, folder
        self._edited: set[int] = set()
        tools = folder / "bin"
        tools.mkdir(parents=True)
        for name, main_class in _CLASSES.items():
            script = tools / name
            command = shlex.join(kafka.tool_command(main_class))
            script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            script.chmod(0o755)
        ours = Path(sys.executable).parent
        self._environment = {
            **os.environ,
            **environment,
            "PATH": os.pathsep.join([str(tools), str(ours), os.environ["PATH"]]),
            "BOOTSTRAP": kafka.bootstrap_string,
        }

    def paste(self, lines: Iterable[str]) -> str:
        """Do what the lines say; return what the commands printed.

        Files are edited, and take effect with `restart_edited_brokers`.
        """
        commands: list[str] = []
        brokers: list[int] = []  # whose file the lines below are for
        for line in lines:
            if line.startswith("#"):
                brokers = self._brokers_of(line) if _FILE in line else brokers
                if removed := _REMOVE.match(line):
                    self._edit(brokers, removed.group(1), None)
                elif _FILE not in line:
                    brokers = []
            elif brokers:
                key, _, value = line.partition("=")
                self._edit(brokers, key, value)
            else:
                commands.append(line)
        return self._run("\n".join(commands)) if commands else ""

    def restart_edited_brokers(self) -> None:
        """Restart the brokers whose files were edited, one after the other."""
        for broker_id in sorted(self._edited):
            self._kafka.restart_broker(broker_id)
        self._edited.clear()

    def _run(self, text: str) -> str:
        result: subprocess.CompletedProcess[str] = run(
            ["bash", "-e", "-u", "-c", text],
            name="pasted lines",
            timeout_seconds=TIMEOUT_SECONDS,
            env=self._environment,
            cwd=self._folder,
        )
        assert result.returncode == 0, f"{text}\n{result.stdout}\n{result.stderr}"
        return result.stdout

    def _brokers_of(self, comment: str) -> list[int]:
        named = _BROKERS.search(comment)
        if named is None:
            return sorted(self._kafka.live_brokers)
        return [int(word) for word in named.group(1).split(",")]

    def _edit(self, brokers: Iterable[int], key: str, value: str | None) -> None:
        for broker_id in brokers:
            file = self._kafka.home(broker_id).properties_file
            kept = [line for line in file.read_text().splitlines() if line.partition("=")[0] != key]
            added = [] if value is None else [f"{key}={value}"]
            file.write_text("".join(f"{line}\n" for line in (*kept, *added)))
            self._edited.add(broker_id)
