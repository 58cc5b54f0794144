"""The five steps of the demo, each a method that does its work and says what happened.

    with Demo(Place.new(Path("var/demo")), Terminal()) as demo:
        demo.start_kafka()
        demo.start_airflow()
        demo.photograph()
        question = demo.add_broker()
        demo.approve(question)
        outcome = demo.move(question)

Leaving the `with` ends everything that was started. Limits: one demo object runs the steps once, in
this order.
"""

import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from counterpoise import queries
from counterpoise.errors import CounterpoiseError
from counterpoise.installation import Installation, open_installation
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.run import Run, RunState
from demo import load
from demo.figures import BrokerFigures, broker_figures, copied_bytes, set_throttles
from demo.place import APPROVER, CLUSTER, ROOT, Place
from demo.terminal import Terminal
from local_airflow import AirflowApi, LocalAirflow
from local_airflow.api import FINAL_RUN_STATES, PendingApproval
from local_kafka import LocalKafka, SteadyProducer, brokers_in_racks, create_topics, fill
from local_processes import free_ports

ROUND_TIMEOUT_SECONDS = 300.0
MOVE_TIMEOUT_SECONDS = 900.0
LOOK_SECONDS = 1.0
# Airflow may take a task that is answered while its first process still ends for one that failed.
LEAST_PARKED_SECONDS = 10.0
NEW_BROKER = 4
RECORDS_PER_SECOND = 50


class DemoFailedError(CounterpoiseError):
    """A step did not end as it should; the message says where to look."""


@dataclass(frozen=True, slots=True)
class FinalAssignment:
    """How it ended, asked from the cluster and the ledger."""

    run: Run
    plan: RebalancePlan
    before: tuple[BrokerFigures, ...]
    after: tuple[BrokerFigures, ...]
    throttles: tuple[str, ...]  # set before, and after
    throttles_before: tuple[str, ...]
    reassignments_left: int
    records_lost: int


class Demo:
    """See the module's text."""

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
        self._stack.callback(self.place.forget_records)
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
        """The cluster, once started."""
        assert self._kafka is not None, "start_kafka comes first"
        return self._kafka

    @property
    def airflow(self) -> LocalAirflow:
        """Airflow, once started."""
        assert self._airflow is not None, "start_airflow comes first"
        return self._airflow

    @property
    def api(self) -> AirflowApi:
        """Airflow's REST API, as the administrator."""
        assert self._api is not None, "start_airflow comes first"
        return self._api

    @property
    def installation(self) -> Installation:
        """The same installation as Airflow's tasks see, for looking."""
        assert self._installation is not None, "start_airflow comes first"
        return self._installation

    def start_kafka(self) -> None:
        """Step 1: three brokers on three racks, skewed topics, real records, and somebody who keeps
        writing.
        """
        self.terminal.step(
            1, "A real Kafka: three brokers, three racks, leaders and sizes uneven on purpose"
        )
        with self.terminal.busy("Starting three brokers"):
            kafka = LocalKafka(self.place.kafka, brokers_in_racks("rack-a", "rack-b", "rack-c"))
            self._kafka = self._stack.enter_context(kafka)
        with self.terminal.busy(f"Writing {load.TOTAL_MEGABYTES} MB of records, three copies each"):
            create_topics(kafka.bootstrap_string, load.topics())
            for topic in load.MEGABYTES:
                fill(kafka.bootstrap_string, topic, load.partition_bytes(topic))
        producer = SteadyProducer(kafka.bootstrap_string, load.BUSY_TOPIC, RECORDS_PER_SECOND)
        self._producer = self._stack.enter_context(producer)
        self.terminal.note(
            f"a producer keeps writing {RECORDS_PER_SECOND} records per second to {load.BUSY_TOPIC}"
        )

    def start_airflow(self) -> None:
        """Step 2: Airflow with this repository's Dags and plugins; and our own view of the same
        installation.
        """
        self.terminal.step(2, "Airflow: api-server, scheduler, dag-processor, triggerer")
        (dead_port,) = free_ports(1)
        dead = f"127.0.0.1:{dead_port}"
        variables = self.place.configure(bootstrap=f"{dead},{self.kafka.bootstrap_string}")
        airflow = LocalAirflow(
            self.place.airflow, dags=ROOT / "dags", plugins=ROOT / "plugins", environment=variables
        )
        with self.terminal.busy("Starting Airflow"):
            self._airflow = self._stack.enter_context(airflow)
        self._api = airflow.api("admin")
        self._stack.callback(self._api.close)
        self._installation = self._stack.enter_context(open_installation(environment=variables))
        self.terminal.note(
            f"Airflow is at {airflow.base_url}; the bootstrap list starts with {dead}, where nobody listens"
        )

    def photograph(self) -> None:
        """Step 3: the first snapshot, which by itself leads to the Spark job and the leader-balance
        report.
        """
        self.terminal.step(3, "A photograph of the cluster, and how evenly it is led")
        with self.installation.reader(CLUSTER) as reader:
            self.throttles_before = tuple(set_throttles(reader))
        self._photograph_round()
        with self.installation.reader(CLUSTER) as reader:
            self.before = broker_figures(reader)
        self.terminal.figures("What the photograph shows", self.before)
        self.terminal.note(
            f"report with pictures: {self.place.reports / CLUSTER / 'leader-balance.html'}"
        )

    def add_broker(self) -> PendingApproval:
        """Step 4: a broker joins and holds nothing; the next snapshot leads to a plan that waits
        for approval.
        """
        self.terminal.step(
            4, "A fourth broker joins; a plan is made, checked, and waits for a person"
        )
        with self.terminal.busy(f"Starting broker {NEW_BROKER} on rack-d"):
            self.kafka.add_broker(NEW_BROKER, "rack-d")
        known = {run.run_id for run in self.api.dag_runs("kafka_rebalance")}
        self._photograph_round()
        with self.terminal.busy("Planning and checking"):
            run = self.api.wait_for_new_run(
                "kafka_rebalance", known, ROUND_TIMEOUT_SECONDS, partition_key=CLUSTER
            )
            question = self.api.wait_for_approval(run.dag_id, run.run_id, ROUND_TIMEOUT_SECONDS)
        self.terminal.markdown(question.body)
        page = self.api.approval_page(question.dag_id, question.run_id, question.task_id)
        login = f"{APPROVER} / {self.airflow.password(APPROVER)}"
        whole_plan = (
            f"{self.airflow.base_url}/counterpoise/runs/{self._run_of_the_plan().run_id}/plan"
        )
        lines = [page, f"login: {login}", f"the whole plan, behind the same login: {whole_plan}"]
        self.terminal.important("Approve or reject here", lines)
        return question

    def approve(self, question: PendingApproval) -> None:
        """Answers yes over REST, as a person would on the page, at the rate that the form shows."""
        with self.terminal.busy("Approving over REST"):
            parked = (datetime.now(UTC) - question.created_at).total_seconds()
            time.sleep(max(0.0, LEAST_PARKED_SECONDS + 1 - parked))
            answer = {**question.params, "reason": "broker 4 joined (answered by the demo)"}
            approver = self.airflow.api(APPROVER)
            approver.answer_approval(
                question.dag_id, question.run_id, question.task_id, "Approve", answer
            )
            approver.close()

    def wait_for_answer(self, question: PendingApproval) -> None:
        """Until a person has answered, or time is up (which is a no)."""

        def answered() -> bool | None:
            return None if self.api.pending_approvals(question.dag_id, question.run_id) else True

        with self.terminal.busy("Waiting for an answer on the page"):
            self.api.wait_for(answered, "an answer", timeout_seconds=2 * 3600)

    def move(self, question: PendingApproval) -> FinalAssignment:
        """Step 5: the approved plan runs; a look at the cluster and the ledger says how it ended.

        Raises DemoFailedError when the Dag run failed.
        """
        self.terminal.step(
            5, "Moving, throttled; then electing leaders, verifying, putting every setting back"
        )
        run = self._run_of_the_plan()
        plan = queries.plan_of(self.installation, run.run_id)
        self._watch(question, plan)
        ended = self.api.dag_run(question.dag_id, question.run_id)
        if ended.state != "success":
            raise DemoFailedError(self._what_failed(question))
        outcome = self._outcome(run.run_id, plan)
        self._tell(outcome)
        return outcome

    def _photograph_round(self) -> None:
        """Starts kafka_snapshot; its assets lead to kafka_leader_balance, whose end we wait for."""
        known = {run.run_id for run in self.api.dag_runs("kafka_leader_balance")}
        with self.terminal.busy("kafka_snapshot"):
            run_id = self.api.trigger("kafka_snapshot")
            self._expect_success("kafka_snapshot", run_id)
        with self.terminal.busy("kafka_leader_balance: the Spark job, then the report"):
            run = self.api.wait_for_new_run("kafka_leader_balance", known, ROUND_TIMEOUT_SECONDS)
            self._expect_success("kafka_leader_balance", run.run_id)

    def _expect_success(self, dag_id: str, run_id: str) -> None:
        if self.api.wait_for_run(dag_id, run_id, ROUND_TIMEOUT_SECONDS).state != "success":
            raise DemoFailedError(self._what_failed_in(dag_id, run_id))

    def _run_of_the_plan(self) -> Run:
        return self.installation.ledger.runs(cluster=CLUSTER)[0]

    def _watch(self, question: PendingApproval, plan: RebalancePlan) -> None:
        """Until the Dag run has ended: how many bytes have arrived, and which task is at work."""
        deadline = time.monotonic() + MOVE_TIMEOUT_SECONDS
        with (
            self.installation.reader(CLUSTER) as reader,
            self.terminal.progress("Moving", plan.copied_bytes) as bar,
        ):
            while (
                state := self.api.dag_run(question.dag_id, question.run_id).state
            ) not in FINAL_RUN_STATES:
                self.airflow.check()
                bar(copied_bytes(reader, plan), self._doing(question))
                if time.monotonic() > deadline:
                    raise DemoFailedError(
                        f"the run is still {state} after {MOVE_TIMEOUT_SECONDS:g} s"
                    )
                time.sleep(LOOK_SECONDS)
            bar(copied_bytes(reader, plan), "done")

    def _doing(self, question: PendingApproval) -> str:
        states = self.api.task_states(question.dag_id, question.run_id)
        at_work = [
            task for task, state in states.items() if state in ("running", "queued", "deferred")
        ]
        return ", ".join(at_work) or "between two tasks"

    def _outcome(self, run_id: str, plan: RebalancePlan) -> FinalAssignment:
        assert self._producer is not None, "start_kafka comes first"
        self._producer.stop()
        with self.installation.reader(CLUSTER) as reader:
            return FinalAssignment(
                run=self.installation.ledger.run(run_id),
                plan=plan,
                before=self.before,
                after=broker_figures(reader),
                throttles=tuple(set_throttles(reader)),
                throttles_before=self.throttles_before,
                reassignments_left=len(reader.list_reassignments()),
                records_lost=self._producer.failed,
            )

    def _tell(self, outcome: FinalAssignment) -> None:
        self.terminal.before_and_after(outcome.before, outcome.after)
        if outcome.run.state is RunState.DONE:
            self.terminal.price(outcome.plan)
        else:
            self.terminal.note(f"the plan was {outcome.run.state}; the cluster is as it was")
        same = "as before" if outcome.throttles == outcome.throttles_before else "NOT as before"
        self.terminal.note(
            f"throttle settings {same} ({len(outcome.throttles)} set); reassignments under way: "
            f"{outcome.reassignments_left}; records that the producer could not write: {outcome.records_lost}"
        )
        for name in queries.list_reports(self.installation):
            self.terminal.note(f"report: {self.place.reports / name}")

    def _what_failed(self, question: PendingApproval) -> str:
        return self._what_failed_in(question.dag_id, question.run_id)

    def _what_failed_in(self, dag_id: str, run_id: str) -> str:
        states = self.api.task_states(dag_id, run_id)
        failed = [task for task, state in states.items() if state == "failed"]
        logs = [f"{task}: {self._last_log_lines(dag_id, run_id, task)}" for task in failed]
        return "\n".join([f"{dag_id} {run_id} failed; logs are in {self.place.airflow}", *logs])

    def _last_log_lines(self, dag_id: str, run_id: str, task: str) -> str:
        task_id, _, index = task.partition("[")
        map_index = int(index.rstrip("]")) if index else -1
        lines = self.api.task_log(dag_id, run_id, task_id, map_index).splitlines()
        return "\n".join(line for line in lines if "error" in line.lower())[-2000:]
