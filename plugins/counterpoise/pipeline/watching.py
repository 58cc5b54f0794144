"""What is left when nobody drives a run: throttles without a run, moves that come late, debts,
orphaned runs.

    report = watch_throttles(site, "orders-eu", print)
    report.is_clean

What the ledger owns is settled, restored, paid; what it does not own is reported and never touched.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

from counterpoise.errors import StepTakenError
from counterpoise.execution import late_moves
from counterpoise.execution.throttles import broker, own_value, topic
from counterpoise.installation import Installation
from counterpoise.kafka_admin.port import ClusterReader
from counterpoise.kafka_admin.throttle_keys import read_throttle_keys
from counterpoise.model.kafka import ConfigResource
from counterpoise.model.run import ENDED_STATES, UNDER_WAY_STATES, Run, RunState, TouchedKey
from counterpoise.pipeline.running import restore_pending_of, settle_step

_PATIENCE_SECONDS = 300.0  # for one settling run; the next watch goes on with it

Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class WatchReport:
    """What one watch of one cluster found, each in a sentence."""

    settled_runs: tuple[
        str, ...
    ] = ()  # nobody had looked at them for long, or a move of theirs came late
    paid: tuple[str, ...] = ()  # debts
    owed: tuple[str, ...] = ()  # debts of brokers that do not answer
    late_moves: tuple[str, ...] = ()
    foreign_throttles: tuple[str, ...] = ()  # set, and by no run of ours

    @property
    def is_clean(self) -> bool:
        return not (self.owed or self.foreign_throttles)


def watch_throttles(installation: Installation, cluster: str, log: Log) -> WatchReport:
    """Looks after one cluster. Harmless at any time, as often as one likes."""
    runs = [
        run
        for run in installation.ledger.runs(cluster=cluster)
        if run.state in (*UNDER_WAY_STATES, *ENDED_STATES)
    ]
    settled = [_settle(installation, run, log) for run in runs if _is_orphaned(installation, run)]
    report = WatchReport(settled_runs=tuple(settled))
    if any(run.state in UNDER_WAY_STATES for run in installation.ledger.runs(cluster=cluster)):
        # Whoever drives it looks after its own settings; debts and late moves wait for its end.
        with installation.reader(cluster) as reader:
            return replace(
                report, foreign_throttles=tuple(_foreign(reader, _known_keys(installation, runs)))
            )
    with installation.operator(cluster) as admin:
        late = list(_late(installation, admin, runs))
        paid, owed = restore_pending_of(installation, admin, runs)
    for run, move, _ in late:
        log(f"late: {move} of run {run.run_id} is under way although the run has ended")
    settled += [
        _settle_late(installation, run, is_newest, log)
        for run, is_newest in {r.run_id: (r, n) for r, _, n in late}.values()
    ]
    with installation.reader(cluster) as reader:
        foreign = tuple(_foreign(reader, _known_keys(installation, runs)))
    return replace(
        report,
        settled_runs=tuple(settled),
        paid=tuple(_named(key) for key in paid),
        owed=tuple(_named(key) for key in owed),
        late_moves=tuple(f"{move} (run {run.run_id})" for run, move, _ in late),
        foreign_throttles=foreign,
    )


def _is_orphaned(installation: Installation, run: Run) -> bool:
    """Whether nobody has looked at a run under way for as long as the policy allows."""
    if run.state not in UNDER_WAY_STATES:
        return False
    run_progress = installation.ledger.journal(run.run_id).run_progress()
    allowed: timedelta = installation.cluster(run.cluster).policy.movement.orphaned_after
    return installation.clock() - (run_progress.at if run_progress else run.opened_at) >= allowed


def _settle(installation: Installation, run: Run, log: Log) -> str:
    """Settles for some minutes; what is not over by then is gone on with by the next watch."""
    give_up_at = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < give_up_at:
        try:
            seconds = settle_step(installation, run.run_id, log)
        except StepTakenError:
            return f"{run.run_id}: somebody is at work on it"
        if seconds is None:
            ended = installation.ledger.run(run.run_id)
            return f"{run.run_id}: {ended.state} ({ended.reason or 'as planned'})"
        time.sleep(seconds)
    return f"{run.run_id}: still settling"


def _late(
    installation: Installation, reader: ClusterReader, runs: list[Run]
) -> Iterator[tuple[Run, str, bool]]:
    """Runs that have ended with a move under way: which one, and whether the run is the newest of
    the cluster.
    """
    under_way = reader.list_reassignments()
    if not under_way:
        return
    claimed = set()
    for (
        run
    ) in runs:  # newest first: the last plan that wanted a partition there is the one that is late
        plan = installation.archive.read_plan(run.plan_uri, run.fingerprint)
        for move in late_moves(plan, under_way):
            if move.topic_partition not in claimed:
                claimed.add(move.topic_partition)
                yield run, str(move.topic_partition), run == runs[0]


def _settle_late(installation: Installation, run: Run, is_newest: bool, log: Log) -> str:
    """A late move of the newest run ends by the policy; one of an older run is cancelled: others
    have planned since.
    """
    installation.ledger.change_state(run.run_id, RunState.SETTLING, "a move came late")
    journal = installation.ledger.journal(run.run_id)
    if run_progress := journal.run_progress():
        journal.update_progress(replace(run_progress, is_cancelling=not is_newest))
    return _settle(installation, run, log)


def _known_keys(installation: Installation, runs: list[Run]) -> set[tuple[ConfigResource, str]]:
    return {
        (key.resource, key.key)
        for run in runs
        for key in installation.ledger.journal(run.run_id).touched()
        if key.restored_at is None
    }


def _foreign(reader: ClusterReader, known: set[tuple[ConfigResource, str]]) -> Iterator[str]:
    topics = [topic(description.topic) for description in reader.describe_topics()]
    brokers = [broker(broker_id) for broker_id in reader.describe_cluster().live_broker_ids]
    configs = read_throttle_keys(reader, [*topics, *brokers])
    for resource, values in sorted(configs.items()):
        for key in sorted(values):
            value = own_value(configs, resource, key)
            if value is not None and (resource, key) not in known:
                yield f"{resource.type} {resource.name}: {key} = {value!r}"


def _named(touched: TouchedKey) -> str:
    before = "not set" if touched.before_value is None else repr(touched.before_value)
    return f"{touched.resource.type} {touched.resource.name}: {touched.key}, before: {before}"
