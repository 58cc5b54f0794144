"""The five steps of the demo, each a method that does its work and prints what happened.

    with Demo(Place.new(Path("var/demo")), Terminal()) as demo:
        demo.start_kafka()
        demo.start_airflow()
        demo.take_snapshot()
        approval = demo.add_broker()
        demo.approve(approval)
        result = demo.move(approval)

Everything that was started ends with the block.

Limits: one demo object runs the steps once, in this order.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from counterpoise.errors import CounterpoiseError
from counterpoise.installation import Installation, open_installation
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.run import Run, RunState
from counterpoise.model.words import join_ids
from counterpoise.units import format_bytes
from counterpoise.views.plan import PlanView
from demo import load
from demo.figures import BrokerFigures, broker_figures, copied_bytes, set_throttles
from demo.place import APPROVER, CLUSTER, RATE, ROOT, Place
from demo.terminal import Terminal
from dev.local_airflow import AirflowApi, LocalAirflow
from dev.local_airflow.api import FINAL_RUN_STATES, PendingApproval
from dev.local_kafka import LocalKafka, SteadyProducer, brokers_in_racks, create_topics, fill
from dev.local_processes import free_ports

ROUND_TIMEOUT_SECONDS = 600.0
MOVE_TIMEOUT_SECONDS = 900.0
POLL_SECONDS = 1.0
NEW_BROKER = 4
RECORDS_PER_SECOND = 50
BROKER_SETTINGS = {"default.replication.factor": "3", "min.insync.replicas": "2"}


class DemoFailedError(CounterpoiseError):
    """A step failed; the message says where its logs are."""


@dataclass(frozen=True, slots=True)
class DemoResult:
    """How the demo ended, read from the cluster and the ledger."""

    run: Run
    plan: RebalancePlan
    before: tuple[BrokerFigures, ...]
    after: tuple[BrokerFigures, ...]
    throttles: tuple[str, ...]  # throttle keys that are set at the end
    throttles_before: tuple[str, ...]
    ongoing_reassignments: int
    lost_records: int


class Demo:
    """See the module's docstring."""

    def __init__(self, place: Place, terminal: Terminal) -> None:
        self.place = place
        self.terminal = terminal
        self.before: tuple[BrokerFigures, ...] = ()
        self.throttles_before: tuple[str, ...] = ()
        self._stack = ExitStack()
        self._kafka: LocalKafka | None = None
        self._airflow: LocalAirflow | None = None
        self._producer: SteadyProducer | None = None
        self._installation: Installation | None = None
        self._api: AirflowApi | None = None

    def __enter__(self) -> Self:
        self._stack.callback(self.place.delete_records)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def kafka(self) -> LocalKafka:
        """Return the cluster, once started."""
        assert self._kafka is not None, "start_kafka comes first"
        return self._kafka

    @property
    def airflow(self) -> LocalAirflow:
        """Return Airflow, once started."""
        assert self._airflow is not None, "start_airflow comes first"
        return self._airflow

    @property
    def api(self) -> AirflowApi:
        """Return Airflow's REST API, as the administrator."""
        assert self._api is not None, "start_airflow comes first"
        return self._api

    @property
    def installation(self) -> Installation:
        """Return the installation of Airflow's tasks, to read from."""
        assert self._installation is not None, "start_airflow comes first"
        return self._installation

    def start_kafka(self) -> None:
        """Run step 1: three brokers in three racks, uneven topics, a steady producer."""
        with self.terminal.doing("three brokers start", "records are written") as doing:
            specs = brokers_in_racks("rack-a", "rack-b", "rack-c")
            kafka = LocalKafka(self.place.kafka, specs, BROKER_SETTINGS)
            self._kafka = self._stack.enter_context(kafka)
            doing(f"{load.TOTAL_MEGABYTES} MB of records are written", then="Airflow starts")
            create_topics(kafka.bootstrap_string, load.topics())
            for topic in load.MEGABYTES:
                fill(kafka.bootstrap_string, topic, load.partition_bytes(topic))
        producer = SteadyProducer(kafka.bootstrap_string, load.BUSY_TOPIC, RECORDS_PER_SECOND)
        self._producer = self._stack.enter_context(producer)
        self.terminal.note(
            f"Kafka: 3 brokers in 3 racks, {load.TOTAL_MEGABYTES} MB, 3 replicas each; broker 1 "
            f"leads two thirds; {load.BUSY_TOPIC} gets {RECORDS_PER_SECOND} records per second"
        )

    def start_airflow(self) -> None:
        """Run step 2: Airflow with this repository's Dags and plugins."""
        (dead_port,) = free_ports(1)
        dead = f"127.0.0.1:{dead_port}"
        variables = self.place.configure(bootstrap=f"{dead},{self.kafka.bootstrap_string}")
        airflow = LocalAirflow(
            self.place.airflow, dags=ROOT / "dags", plugins=ROOT / "plugins", environment=variables
        )
        with self.terminal.doing("Airflow starts (half a minute)", "a snapshot, its report"):
            self._airflow = self._stack.enter_context(airflow)
        self._api = airflow.api("admin")
        self._stack.callback(self._api.close)
        self._installation = self._stack.enter_context(open_installation(environment=variables))
        lines = [
            f"{airflow.base_url}/counterpoise/fleet",
            f"login: {self.login}",
            f"or type: {self.place.command_line} audit --cluster {CLUSTER}",
            f"Its first bootstrap address, {dead}, is dead on purpose: another one answers.",
        ]
        self.terminal.block("Look at the cluster", lines)

    @property
    def login(self) -> str:
        return f"{APPROVER} / {self.airflow.password(APPROVER)}"

    def take_snapshot(self) -> None:
        """Run step 3: the first snapshot, then the Spark job and the leader-balance report."""
        with self.installation.reader(CLUSTER) as reader:
            self.throttles_before = tuple(set_throttles(reader))
        self._run_snapshot_round("broker 4 joins, a plan for it, your answer (two minutes)")
        with self.installation.reader(CLUSTER) as reader:
            self.before = broker_figures(reader)
        leaders = [row.leader_count for row in self.before]
        self.terminal.note(f"report: brokers 1, 2, 3 lead {join_ids(leaders)} partitions")

    def add_broker(self) -> PendingApproval:
        """Run step 4: an empty broker joins; the next snapshot leads to a plan for approval."""
        then = "a snapshot, a plan, your answer"
        with self.terminal.doing(f"broker {NEW_BROKER} starts in rack-d, empty", then):
            self.kafka.add_broker(NEW_BROKER, "rack-d")
        known = {run.run_id for run in self.api.dag_runs("kafka_rebalance")}
        self._run_snapshot_round("a plan, your answer (one minute)")
        with self.terminal.doing("a plan is made and validated", "your answer"):
            run = self.api.wait_for_new_run(
                "kafka_rebalance", known, ROUND_TIMEOUT_SECONDS, partition_key=CLUSTER
            )
            approval = self.api.wait_for_approval(run.dag_id, run.run_id, ROUND_TIMEOUT_SECONDS)
        self._ask(approval)
        return approval

    def _ask(self, approval: PendingApproval) -> None:
        """Print the question, in ten lines at most, with the one page where it is answered."""
        run_id = self._newest_run().run_id
        plan = self.installation.run_and_plan(run_id)[1]
        view = PlanView.of(plan)
        lines = [
            f"{approval.subject}. No plan for this copies less than "
            f"{format_bytes(plan.lower_bound.bytes)}.",
            *(
                f"{measure.change_in_words(view.brokers_before_and_after)} per broker"
                for measure in view.measures[:3]
            ),
            "Nothing moves before your answer; a no, or none in an hour, leaves all as it is.",
            "",
            f"{self.airflow.base_url}/counterpoise/runs/{run_id}",
            f"login: {self.login}",
        ]
        self.terminal.block("Approve or reject?", lines)

    def approve(self, approval: PendingApproval) -> None:
        """Approve by the API, as a person would on the page, at the rate of the policy."""
        approver = self.airflow.api(APPROVER)
        approver.approve(approval, "broker 4 joined (approved by the demo)", RATE)
        approver.close()
        self.terminal.note(f"approved by {APPROVER} over the API, at {RATE} (APPROVE=yes)")

    def wait_for_response(self, approval: PendingApproval) -> None:
        """Wait until a person has responded, or time is up, which rejects the plan."""

        def has_response() -> bool | None:
            return None if self.api.pending_approvals(approval.dag_id, approval.run_id) else True

        with self.terminal.doing("waits for your answer on that page", "the move, half a minute"):
            self.api.wait_for(has_response, "a response", timeout_seconds=2 * 3600)

    def move(self, approval: PendingApproval) -> DemoResult:
        """Run step 5: the approved plan is executed; return how it ended.

        Raises DemoFailedError when the Dag run failed.
        """
        run = self._newest_run()
        plan = self.installation.run_and_plan(run.run_id)[1]
        self._watch(approval, plan)
        ended = self.api.dag_run(approval.dag_id, approval.run_id)
        if ended.state != "success":
            raise DemoFailedError(self._failure_of(approval.dag_id, approval.run_id))
        result = self._result(run.run_id, plan)
        self._print_result(result)
        return result

    def _run_snapshot_round(self, then: str) -> None:
        """Trigger kafka_snapshot, and wait for the kafka_leader_balance run that it leads to."""
        known = {run.run_id for run in self.api.dag_runs("kafka_leader_balance")}
        with self.terminal.doing("kafka_snapshot reads the cluster", then) as doing:
            run_id = self.api.trigger("kafka_snapshot")
            self._expect_success("kafka_snapshot", run_id)
            doing("kafka_leader_balance counts with Spark, and writes the report")
            run = self.api.wait_for_new_run("kafka_leader_balance", known, ROUND_TIMEOUT_SECONDS)
            self._expect_success("kafka_leader_balance", run.run_id)

    def _expect_success(self, dag_id: str, run_id: str) -> None:
        if self.api.wait_for_run(dag_id, run_id, ROUND_TIMEOUT_SECONDS).state != "success":
            raise DemoFailedError(self._failure_of(dag_id, run_id))

    def _newest_run(self) -> Run:
        return self.installation.ledger.runs(cluster=CLUSTER)[0]

    def _watch(self, approval: PendingApproval, plan: RebalancePlan) -> None:
        """Show copied bytes and running tasks until the Dag run has ended."""
        deadline = time.monotonic() + MOVE_TIMEOUT_SECONDS
        total = format_bytes(plan.copied_bytes)
        then = "every setting as before, the figures of before and after"
        with (
            self.installation.reader(CLUSTER) as reader,
            self.terminal.doing("the run begins", then) as doing,
        ):
            while True:
                state = self.api.dag_run(approval.dag_id, approval.run_id).state
                if state in FINAL_RUN_STATES:
                    break
                self.airflow.check()
                copied = f": {format_bytes(copied_bytes(reader, plan))} of {total} copied"
                doing(f"kafka_rebalance: {self._running_tasks(approval)}", copied)
                if time.monotonic() > deadline:
                    message = f"the Dag run is still {state} after {MOVE_TIMEOUT_SECONDS:g} s"
                    raise DemoFailedError(f"{message}; logs are in {self.place.airflow}")
                time.sleep(POLL_SECONDS)

    def _running_tasks(self, approval: PendingApproval) -> str:
        states = self.api.task_states(approval.dag_id, approval.run_id)
        active = ("running", "queued", "deferred")
        tasks = [task for task, state in states.items() if state in active]
        return ", ".join(tasks) or "between two tasks"

    def _result(self, run_id: str, plan: RebalancePlan) -> DemoResult:
        assert self._producer is not None, "start_kafka comes first"
        self._producer.stop()
        with self.installation.reader(CLUSTER) as reader:
            return DemoResult(
                run=self.installation.ledger.run(run_id),
                plan=plan,
                before=self.before,
                after=broker_figures(reader),
                throttles=tuple(set_throttles(reader)),
                throttles_before=self.throttles_before,
                ongoing_reassignments=len(reader.list_reassignments()),
                lost_records=self._producer.failed,
            )

    def _print_result(self, result: DemoResult) -> None:
        """Print five lines: what was done, each broker before and after, what is left, where."""
        was_done = result.run.state is RunState.DONE
        copied = f"{format_bytes(result.plan.copied_bytes)} copied" if was_done else "nothing moved"
        are_restored = result.throttles == result.throttles_before
        settings = "every throttle setting as before" if are_restored else "SETTINGS LEFT BEHIND"
        lines = [
            f"run {result.run.run_id} is {result.run.state}: {copied}",
            f"leaders of brokers 1 to {NEW_BROKER}: "
            f"{_per_broker(result, lambda row: str(row.leader_count))}",
            f"replicas: {_per_broker(result, lambda row: str(row.replica_count))}; "
            f"bytes: {_per_broker(result, lambda row: format_bytes(row.size_bytes))}",
            f"{settings}; {result.ongoing_reassignments} reassignments under way; "
            f"{result.lost_records} records lost meanwhile",
            f"look back: {self.place.command_line} status {result.run.run_id}",
        ]
        self.terminal.block(f"Done in {self.terminal.minutes} minutes", lines)

    def _failure_of(self, dag_id: str, run_id: str) -> str:
        states = self.api.task_states(dag_id, run_id)
        failed = [task for task, state in states.items() if state == "failed"]
        logs = [f"{task}: {self._last_log_lines(dag_id, run_id, task)}" for task in failed]
        return "\n".join([f"{dag_id} {run_id} failed; logs are in {self.place.airflow}", *logs])

    def _last_log_lines(self, dag_id: str, run_id: str, task: str) -> str:
        task_id, _, index = task.partition("[")
        map_index = int(index.rstrip("]")) if index else -1
        lines = self.api.task_log(dag_id, run_id, task_id, map_index).splitlines()
        return "\n".join(line for line in lines if "error" in line.lower())[-2000:]


def _per_broker(result: DemoResult, figure: Callable[[BrokerFigures], str]) -> str:
    """Return one figure of each broker before and after, like `31, 8, 7 → 12, 11, 12, 11`."""
    before, after = (", ".join(map(figure, rows)) for rows in (result.before, result.after))
    return f"{before} → {after}"
