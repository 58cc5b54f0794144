"""What a team wants, from the section `policy` of a cluster.

Absent keys have the defaults of `model.policy`.
"""

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import yaml

from counterpoise.errors import InputError
from counterpoise.model.calendar import check_window
from counterpoise.model.policy import (
    ApprovalPolicy,
    BalancePolicy,
    ThrottleBackOffPolicy,
    ClusterPolicy,
    DailyRate,
    HistoryPolicy,
    InFlight,
    LeaderWeight,
    MaintenanceWindow,
    MovementPolicy,
)
from counterpoise.settings.audits import read_audit
from counterpoise.settings.sections import (
    Section,
    amount,
    choice,
    duration,
    duration_from,
    patterns,
    rate,
    text,
    texts,
    time_of_day,
    whole,
)
from counterpoise.units import format_seconds

# Looks are 10 s apart through Airflow: what is judged over less than a few of them would be judged
# by chance.
_A_FEW_LOOKS = "30s"
_MANY_LOOKS = "2m"
# A job that reads files takes no longer than this.
_LONG_ENOUGH_TO_READ = "1h"


def read_policy(section: Section | None) -> ClusterPolicy:
    if section is None:
        return ClusterPolicy()
    policy = ClusterPolicy(
        balance=_balance(section.section("balance")),
        movement=_movement(section.section("movement")),
        approval=_approval(section.section("approval")),
        history=_history(section.section("history")),
        audit=read_audit(section.section("audit")),
    )
    section.finish()
    return policy


def _balance(part: Section | None) -> BalancePolicy:
    unset = BalancePolicy()
    if part is None:
        return unset
    policy = BalancePolicy(
        bytes_tolerance_percent=part.value(
            "bytes_tolerance_percent", whole(1, 100), unset.bytes_tolerance_percent
        ),
        leaders_max_minus_min=part.value(
            "leaders_max_minus_min", whole(0, 10**6), unset.leaders_max_minus_min
        ),
        excluded_topics=part.value("excluded_topics", patterns, unset.excluded_topics),
        topics_max_above_share=part.value(
            "topics_max_above_share", whole(0, 10**6), unset.topics_max_above_share
        ),
        leader_weight=part.value("leader_weight", choice(LeaderWeight), unset.leader_weight),
        disk_limit_percent=part.value(
            "disk_limit_percent", whole(1, 100), unset.disk_limit_percent
        ),
        ignorable_permille=part.value(
            "ignorable_permille", whole(0, 100), unset.ignorable_permille
        ),
    )
    part.finish()
    return policy


def _approval(part: Section | None) -> ApprovalPolicy:
    unset = ApprovalPolicy()
    if part is None:
        return unset
    policy = ApprovalPolicy(
        approvers=part.value("approvers", texts, unset.approvers),
        wait_for=part.value("wait_for", duration, unset.wait_for),
        expires_after=part.value("expires_after", duration, unset.expires_after),
    )
    part.finish()
    return policy


def _movement(part: Section | None) -> MovementPolicy:
    unset = MovementPolicy()
    if part is None:
        return unset
    a_few, many = duration_from(_A_FEW_LOOKS), duration_from(_MANY_LOOKS)
    policy = MovementPolicy(
        rate_bytes_per_second=part.value("rate", rate, unset.rate_bytes_per_second),
        max_moves_in_flight=part.value(
            "max_moves_in_flight", whole(1, 10**5), unset.max_moves_in_flight
        ),
        max_moves_in_flight_per_broker=part.value(
            "max_moves_in_flight_per_broker", whole(1, 10**4), unset.max_moves_in_flight_per_broker
        ),
        max_bytes_in_flight=part.value("max_bytes_in_flight", amount, unset.max_bytes_in_flight),
        max_bytes_in_flight_per_broker=part.value(
            "max_bytes_in_flight_per_broker", amount, unset.max_bytes_in_flight_per_broker
        ),
        max_coordinator_moves_in_flight=part.value(
            "max_coordinator_moves_in_flight",
            whole(1, 10**4),
            unset.max_coordinator_moves_in_flight,
        ),
        max_elections_per_look=part.value(
            "max_elections_per_look", whole(1, 10**5), unset.max_elections_per_look
        ),
        on_halt=part.value("on_halt", choice(InFlight), unset.on_halt),
        time_zone=part.value("time_zone", _time_zone, unset.time_zone),
        windows=_windows(part),
        daily_rates=_daily_rates(part),
        link_capacity_bytes_per_second=part.value(
            "link_capacity", rate, unset.link_capacity_bytes_per_second
        ),
        throttle_back_off=_brakes(part.section("brakes")),
        dead_broker_patience=part.value(
            "dead_broker_patience", duration, unset.dead_broker_patience
        ),
        stall_patience=part.value("stall_patience", a_few, unset.stall_patience),
        orphaned_after=part.value("orphaned_after", many, unset.orphaned_after),
    )
    part.finish()
    return policy


def _history(part: Section | None) -> HistoryPolicy:
    unset = HistoryPolicy()
    if part is None:
        return unset
    policy = HistoryPolicy(
        keep_all=part.value("keep_all", duration_from("1d"), unset.keep_all),
        keep_hourly=part.value("keep_hourly", duration, unset.keep_hourly),
        keep_daily=part.value("keep_daily", duration, unset.keep_daily),
        grace=part.value("grace", duration_from(_LONG_ENOUGH_TO_READ), unset.grace),
        least_share_of_previous_percent=part.value(
            "least_share_of_previous_percent", whole(0, 100), unset.least_share_of_previous_percent
        ),
        believed_after=part.value("believed_after", whole(1, 1000), unset.believed_after),
    )
    _check_order(part, policy, ("keep_all", "keep_hourly", "keep_daily"))
    part.finish()
    return policy


def _check_order(part: Section, policy: HistoryPolicy, names: Sequence[str]) -> None:
    """Each time must reach as far as the one before it, also where one of the two is a default."""
    for before, after in pairwise(names):
        shorter, longer = getattr(policy, before), getattr(policy, after)
        if longer < shorter:
            written = after if after in part.names() else before
            told = f"{after} ({_in_words(longer)}) must not be shorter than {before} ({_in_words(shorter)})"
            part.complain(written if written in part.names() else None, told)


def _in_words(time: timedelta) -> str:
    return format_seconds(time.total_seconds())


def _windows(part: Section) -> tuple[MaintenanceWindow, ...]:
    found = []
    for entry in part.sections("windows"):
        starts, lasts = entry.needed("starts", _cron), entry.needed("lasts", duration)
        entry.finish()
        if starts is not None and lasts is not None:
            found.append(MaintenanceWindow(starts, lasts))
    return tuple(found)


def _daily_rates(part: Section) -> tuple[DailyRate, ...]:
    found = []
    for entry in part.sections("daily_rates"):
        starts, until = entry.needed("from", time_of_day), entry.needed("until", time_of_day)
        most = entry.needed("rate", rate)
        entry.finish()
        if starts is not None and until is not None and most is not None:
            found.append(DailyRate(starts, until, most))
    return tuple(found)


def _brakes(part: Section | None) -> ThrottleBackOffPolicy:
    unset = ThrottleBackOffPolicy()
    if part is None:
        return unset
    policy = ThrottleBackOffPolicy(
        lowest_rate_bytes_per_second=part.value(
            "lowest_rate", rate, unset.lowest_rate_bytes_per_second
        ),
        step_after=part.value("step_after", duration, unset.step_after),
        calm_after=part.value("calm_after", duration, unset.calm_after),
        halt_after=part.value("halt_after", duration, unset.halt_after),
    )
    part.finish()
    return policy


def _cron(node: yaml.Node, name: str) -> str:
    words = text(node, name)
    check_window(MaintenanceWindow(words, lasts=timedelta(hours=1)), where=name)
    return words


def _time_zone(node: yaml.Node, name: str) -> str:
    zone = text(node, name)
    try:
        ZoneInfo(zone)
    except (
        ZoneInfoNotFoundError,
        ValueError,
        OSError,
    ):  # OSError: the name of a folder, such as Europe
        raise InputError(
            f"{name}: {zone!r} is no time zone; write its IANA name, like Europe/Berlin"
        ) from None
    return zone
