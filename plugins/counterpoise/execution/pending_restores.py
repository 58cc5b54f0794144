"""What runs that have ended still owe, and what of theirs comes late.

    paid, owed = restore_pending(admin, journal, step)
    late = late_moves(plan, reassignments)

A dead broker's config can be neither read nor written, so a run may end with a debt; and a broker
that was frozen applies what it was asked long ago when it wakes. A reassignment that equals a step
of one of our plans is ours.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from counterpoise.execution.command_executor import outcome_of
from counterpoise.execution.throttles import Configs, own_value, restoring
from counterpoise.kafka_admin.port import ClusterAdmin
from counterpoise.kafka_admin.throttle_keys import read_throttle_keys
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import Reassignment
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.run import TouchedKey
from counterpoise.model.steps import steps_of

if TYPE_CHECKING:
    from counterpoise.ledger import Journal


def restore_pending(
    admin: ClusterAdmin, journal: "Journal"
) -> tuple[tuple[TouchedKey, ...], tuple[TouchedKey, ...]]:
    """Restores what an ended run left; the keys that are as before now, and those whose broker does
    not answer.

    Compare-then-set, as at the end of a run: a key that somebody changed since is left as it is.
    Keys with a change that nobody answered are looked at again until every broker has answered: by
    then it has come, or never will.
    """
    owed = [t for t in journal.touched() if is_pending_restore(t)]
    if not owed:
        return (), ()
    configs = _read(admin, owed)
    changes = [change for t in owed if (change := restoring(t, configs))]
    if changes:
        admin.alter_configs(changes)
        configs = _read(admin, owed)
    changed = {(change.resource, change.key) for change in changes}
    paid, left = [], []
    for touched in owed:
        is_gone = touched.resource.is_topic and touched.resource not in configs
        if is_gone or (touched.resource in configs and restoring(touched, configs) is None):
            value = own_value(configs, touched.resource, touched.key)
            journal.restored(
                touched, value, "its topic is gone" if is_gone else outcome_of(touched, value)
            )
            if touched.restored_at is None or (touched.resource, touched.key) in changed:
                paid.append(touched)
        elif touched.restored_at is None:
            left.append(touched)
    if {b.broker_id for b in admin.describe_cluster().brokers} == admin.describe_versions().keys():
        journal.nothing_is_late(t for t in owed if t not in left)
    return tuple(paid), tuple(left)


def is_pending_restore(touched: TouchedKey) -> bool:
    """Whether a key of an ended run is still to be looked after: not restored, or a change of it
    may come late.
    """
    return touched.restored_at is None or touched.may_come_late


def _read(admin: ClusterAdmin, keys: Sequence[TouchedKey]) -> Configs:
    live = admin.describe_cluster().live_broker_ids
    return read_throttle_keys(
        admin, (t.resource for t in keys if t.resource.is_topic or int(t.resource.name) in live)
    )


def late_moves(
    plan: RebalancePlan, under_way: Mapping[TopicPartition, Reassignment]
) -> tuple[Move, ...]:
    """The moves of an ended run that are under way although nobody drives it."""
    return tuple(
        move
        for move in plan.moves
        if (seen := under_way.get(move.topic_partition)) is not None
        and seen.target in steps_of(move)
    )
