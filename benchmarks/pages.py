"""How long the api-server takes for each page of a large fleet, and for its JSON, beside 500 ms,
and how large each is, beside 300 kB.

    .venv/bin/python benchmarks/pages.py [--clusters 200] [--snapshots 2000] [--moves 60000]
        [--keep FOLDER]

200 clusters, each with an audit of 40 findings and pages of earlier days (20,000 in all); one of 36
brokers with 2,000 snapshots, 60 audits and a ledger of 400 runs and 40,000 events; two plans of
60,000 moves on 200 brokers that wait for an answer, and a run of as many that moves. Each page is
asked for once after the start (*first*: nothing of it is cached) and then ten times (the median).
Times are CPU time of the process: on a machine with other work, waiting is not in it. Browser and
network are not in it, Airflow's own login neither. `--keep` leaves the installation in a folder, to
be viewed.

Exit code 1 when a page takes longer, or is larger. The first time is shown; it has the target where
somebody opens a page for the first time each day: a period of a cluster, and the second of the
plans, since the process has shown one before. `/metrics`, for a scraper, has no limit of bytes.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Final

if __name__ == "__main__":
    # A script's own folder is there, the project's is not.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import sqlalchemy as sa

from benchmarks.observing import BROKERS as PLAN_BROKERS
from benchmarks.observing import large_plan
from counterpoise import audit, reporting
from counterpoise.analysis import leader_balance, wanted_goals
from counterpoise.analysis.fleets import fleet, fleet_entry
from counterpoise.archive import audit_report_name, balance_report_name
from counterpoise.audit import auditing
from counterpoise.installation import Installation
from counterpoise.ledger.schema import events, runs
from counterpoise.model.balance import LeaderBalance
from counterpoise.model.finding import AuditReport, Evidence, Finding, ReportedFinding, to_json
from counterpoise.model.fleet_document import ClusterState, fleet_json
from counterpoise.model.load import ClusterLoad, DiskForecast, Outlook, Trace
from counterpoise.model.plan import BrokerFigure, RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.run import RunState
from counterpoise.model.run_progress import BrokerLoad, Link, Progress, RunProgress, TrailPoint
from counterpoise.model.severity import Severity
from counterpoise.views.audit import AuditView, audit_json
from counterpoise.views.balance import leader_balance_json
from counterpoise.web.app import warm_up
from tests.support.ledger_view import change_state, update_progress
from tests.support.pages import Pages
from tests.support.series import NO_TOPICS, story
from tests.support.written_history import write_history
from tests.unit.test_fleet import load

MAX_SECONDS: Final = 0.5
MAX_BYTES: Final = 300_000
MAX_FLEET_BYTES: Final = 200_000
_RUN_TABS: Final = ("moves", "brokers", "checks", "settings", "timeline")
BROKERS: Final = 36
FINDINGS: Final = 40
AUDITS: Final = 60
RUNS: Final = 400
EVENTS_PER_RUN: Final = 100
DAYS: Final = 730  # that pages of a day are kept, of the first cluster
_DAYS_OF_OTHERS: Final = 50
_REPEATS: Final = 10
_POLICY: Final = "{movement: {rate: 50MB/s}, access: {approve: [alice, bob], propose: [alice]}}"


@dataclass(frozen=True, slots=True)
class Timed:
    path: str
    first_seconds: float
    seconds: float
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Fleet:
    pages: Pages
    large: str  # the cluster with the long history
    run_ids: tuple[str, str]  # of the plans of many moves
    moving_id: str  # of the run that moves as many


def pages_of(fleet: Fleet) -> tuple[str, ...]:
    """Return the addresses that are measured."""
    large, run = fleet.large, f"/runs/{fleet.run_ids[0]}"
    moving = f"/runs/{fleet.moving_id}"
    return (
        "/fleet",
        "/fleet?search=1&sort=disk&number=2",
        f"/clusters/{large}",
        *first_views_of(fleet)[:-1],
        f"/clusters/{large}/findings",
        f"/clusters/{large}/findings/waive",
        f"/clusters/{large}/runs",
        f"/clusters/{large}/settings",
        "/ledger",
        f"/ledger?cluster={large}&person=alice&kind=events",
        f"/ledger?cluster={large}&page=50",
        "/reports",
        f"/reports?cluster={large}",
        f"/reports?cluster={large}&text=audit&number=7",
        "/setup",
        "/metrics",
        "/api/fleet",
        "/api/open-runs",
        f"/api/clusters/{large}",
        f"/api/clusters/{large}/audit",
        f"/api/ledger?cluster={large}",
        f"{run}?tab=moves&text=topic-5&sort=topic&number=2",
        f"{run}?tab=moves&broker=7&number=5",
        run,
        *(f"{run}?tab={tab}" for tab in _RUN_TABS),
        f"/api{run}",
        f"/api{run}/moves",
        moving,
        f"{moving}?tab=timeline",
        f"/api{moving}",
        f"/api{moving}/progress",
        *first_views_of(fleet)[-1:],
    )


def first_views_of(fleet: Fleet) -> tuple[str, ...]:
    """Return the addresses of which the first view has a target, too: periods, and a plan."""
    return (
        *(
            f"/clusters/{fleet.large}/{tab}?period={period}"
            for period in ("7d", "30d", "90d")
            for tab in ("balance", "load")
        ),
        f"/runs/{fleet.run_ids[1]}",
    )


def max_bytes_of(path: str) -> int | None:
    """Return how large an answer may be; None without a limit."""
    if path == "/metrics":
        return None
    return MAX_FLEET_BYTES if path.startswith("/fleet") else MAX_BYTES


def make_fleet(folder: Path, clusters: int, snapshots: int, moves: int) -> Fleet:
    """Write settings, store and ledger of a fleet; its first cluster has the long history."""
    names = [f"cluster-{number:03d}" for number in range(clusters)]
    lines = [f"  {name}: {{connection: kafka, policy: {_POLICY}}}" for name in names]
    (folder / "connections.yaml").write_text("kafka: {bootstrap.servers: 'kafka-1:9092'}\n")
    pages = Pages.in_folder(folder, "\n".join(["clusters:", *lines, ""]))
    large = balance_of(names[0], snapshots)
    pages = replace(pages, now=large.latest.observed_at + timedelta(minutes=20))
    with pages.installation() as installation:
        write_reports(installation, pages.now, names, large)
        write_history(installation, story(BROKERS, snapshots, cluster=names[0]))
        for number, name in enumerate(names):
            write_audits(installation, pages.now, name, AUDITS if number == 0 else 1)
        _write_ledger(installation, pages.now, names)
        first, second = (_propose(installation, plan_of(name, moves)) for name in names[-2:])
        moving = _start(installation, plan_of(names[-3], moves))
    return Fleet(pages, names[0], (first, second), moving)


def _propose(installation: Installation, plan: RebalancePlan) -> str:
    path = installation.archive.write_plan(plan)
    return installation.ledger.propose(plan, path, requested_by="airflow:alice").run_id


def _start(installation: Installation, plan: RebalancePlan) -> str:
    """Open a run that has moved a third of its plan for 20 minutes; return its id."""
    run_id, ledger, now = _propose(installation, plan), installation.ledger, installation.clock()
    change_state(ledger, run_id, RunState.APPROVED)
    change_state(ledger, run_id, RunState.RUNNING)
    done, total = len(plan.moves) // 3, plan.copied_bytes
    progress = Progress(done, len(plan.moves), 500, total // 3, total, 0)
    trail = tuple(
        TrailPoint(now - timedelta(seconds=10 * age), total // 3 - age * 10**9, 10**8, 2 * 10**7)
        for age in reversed(range(120))
    )
    brokers = sorted({broker.broker_id for broker in plan.figures})
    links = tuple(
        Link(broker_id, sends, 3, 10**9, 5 * 10**6, now)
        for broker_id in brokers
        for sends in (True, False)
    )
    loads = tuple(BrokerLoad(broker_id, 310, 910, 9 * 10**11) for broker_id in brokers)
    in_flight = {str(move.topic_partition): 10**8 for move in plan.moves[done : done + 500]}
    seen = RunProgress(
        *(now, progress, 20_000_000),
        links=links,
        trail=trail,
        brokers=loads,
        arrived_bytes=in_flight,
    )
    update_progress(ledger, run_id, seen)
    return run_id


def plan_of(cluster: str, moves: int) -> RebalancePlan:
    """Return a plan that evens out 200 brokers."""
    figures = tuple(_figure(broker) for broker in range(1, PLAN_BROKERS + 1))
    return replace(large_plan(moves), cluster=cluster, figures=figures)


def _figure(broker_id: int) -> BrokerFigure:
    leaders, replicas, held = 300, 900, 900_000_000_000
    before = broker_id * 37 % 100
    return BrokerFigure(
        broker_id,
        f"rack-{broker_id % 3}",
        *(leaders + before, leaders, leaders),
        *(replicas + before, replicas, replicas),
        *(held + before * 10**9, held, held),
        bytes_peak=held + 100 * 10**9,
        disk_total_bytes=2 * held,
        disk_used_bytes=held + before * 10**9,
    )


def balance_of(cluster: str, snapshots: int) -> LeaderBalance:
    """Return the balance of 36 brokers after so many snapshots."""
    found = leader_balance(
        story(BROKERS, snapshots, cluster=cluster).table, NO_TOPICS, cluster=cluster
    )
    assert found is not None
    return found


def write_reports(
    installation: Installation, now: datetime, names: Sequence[str], large: LeaderBalance
) -> None:
    """Write the reports of an analysis; `large` is the balance of the first cluster."""
    write = installation.archive.write_report
    small = replace(large, series=large.series[-50:])
    states = [_state(name, number, small) for number, name in enumerate(names)]
    write("fleet.json", fleet_json(fleet(map(fleet_entry, states), as_of=now)))
    wanted = next(iter(wanted_goals(large, BalancePolicy())), None)
    found = states[0].load
    html = reporting.leader_balance_report(large, wanted=wanted, load=found)
    write(f"{names[0]}/leader-balance.html", html)
    for number in range(100):
        write(f"{names[0]}/runs/{names[0]}-{number}-plan.html", "<p>a plan</p>")
    for name in names:
        for age in range(1, DAYS if name == names[0] else _DAYS_OF_OTHERS):
            day = now.date() - timedelta(days=age)
            write(balance_report_name(name, day), "<p>a balance</p>")
            write(audit_report_name(name, day), "<p>an audit</p>")
    text = leader_balance_json(large, wanted=wanted, load=found)
    write(f"{names[0]}/leader-balance.json", text)


def _state(name: str, number: int, balance: LeaderBalance) -> ClusterState:
    held = replace(balance, cluster=name)
    return ClusterState(name, timedelta(minutes=20), held, _load(number))


def _load(number: int) -> ClusterLoad:
    points = 200
    rates = [1_000_000 + 10_000 * ((step * 37 + number * 11) % 60) for step in range(points)]
    at = tuple(step / (points - 1) for step in range(points))
    disks = tuple(_disk(broker, number) for broker in range(1, BROKERS + 1))
    found = load(*(200_000 + 900 * broker for broker in range(BROKERS)))
    return replace(found, bytes_in_trace=Trace(at, tuple(rates), 30 * 86_400.0), disks=disks)


def _disk(broker_id: int, number: int) -> DiskForecast:
    days = 20.0 + broker_id if number % 7 == 0 else None
    held = Trace((0.0, 0.5, 1.0), (400, 450, 500), 14 * 86_400.0)
    outlook = Outlook.NOT_WITHIN_A_YEAR if days is None else Outlook.FILLS
    return DiskForecast(broker_id, ("/data",), 500, 1_000, 500, 7, 9e5, outlook, days, held)


def write_audits(
    installation: Installation,
    now: datetime,
    name: str,
    count: int,
    *,
    findings: int = FINDINGS,
    words: str = "",
) -> None:
    """Write so many audits of a cluster, the newest as of now; each finding has the words."""
    texts = auditing.rule_texts({})
    for age in reversed(range(count)):
        at = now - timedelta(hours=12 * age)
        found = tuple(_findings(at, findings - age % 9, words))
        snapshot_id = f"{name}-{at:%Y%m%dT%H%M%SZ}"
        before = at - timedelta(hours=12) if count > 1 else None
        report = AuditReport(name, "Kafka-Id", at, snapshot_id, found, previous_at=before)
        installation.archive.store.write_text(f"audits/{name}/{snapshot_id}.json", to_json(report))
        if age == 0:
            document = audit_json(AuditView.of(report, texts))
            installation.archive.write_report(f"{name}/audit.json", document)


def _findings(at: datetime, count: int, words: str) -> Iterator[ReportedFinding]:
    severities = (Severity.WARNING, Severity.INFO, Severity.WARNING, Severity.UNKNOWN)
    for number in range(count):
        rule = audit.RULES[number % len(audit.RULES)]
        rows = tuple((f"topic-{row}{words}", str(row), "one replica") for row in range(10))
        evidence = Evidence(("topic", "partition", "state"), rows, 250)
        subject = f"topic orders.{number}{words}"
        summary = f"{subject} has 12 partitions with one replica"
        severity = severities[number % len(severities)]
        finding = Finding(rule.id, severity, subject, summary, evidence, fix=("kafka-topics.sh",))
        yield ReportedFinding(finding, at - timedelta(days=number), number % 9 == 0)


def _write_ledger(installation: Installation, now: datetime, names: Sequence[str]) -> None:
    """Write runs and events."""
    ledger = installation.ledger
    for name in names:
        ledger.pin_cluster(name, f"id-of-{name}")
        ledger.record_snapshot(name, f"{name}-x", now - timedelta(minutes=20))
    kinds = ("submitted", "observed", "throttled", "done", "note")
    run_rows, event_rows = [], []
    for number in range(RUNS):
        cluster = names[0 if number % 2 else number // 2 % len(names)]
        opened_at = now - timedelta(hours=number)
        run_id, fingerprint = f"{cluster}-run-{number:04d}", f"sha256:{number:064d}"
        plan_uri = f"plans/{number}.json"
        is_waiting = 0 < number < 20 and not number % 2 and number // 2 < len(names)
        state = RunState.PROPOSED if is_waiting else RunState.DONE
        row = (run_id, cluster, fingerprint, plan_uri, state, "", "airflow:alice", opened_at)
        run_rows.append(row)
        for event in range(EVENTS_PER_RUN):
            at, kind = opened_at + timedelta(seconds=event), kinds[event % len(kinds)]
            event_rows.append((run_id, at, kind, f"12 partitions by alice, batch {event}"))
    with sa.create_engine(installation.locations.ledger).begin() as connection:
        for table, names_of, rows in (
            (runs, _RUN_COLUMNS, run_rows),
            (events, ("run_id", "at", "kind", "text"), event_rows),
        ):
            values = [dict(zip(names_of, row, strict=True)) for row in rows]  # type: ignore[arg-type]
            connection.execute(table.insert(), values)


_RUN_COLUMNS: Final = (
    "run_id",
    "cluster",
    "fingerprint",
    "plan_uri",
    "state",
    "reason",
    "requested_by",
    "opened_at",
)


def measure(pages: Pages, paths: Sequence[str], repeats: int = _REPEATS) -> Iterator[Timed]:
    """Yield the time of each page, in the order of `paths`. Raises AssertionError for a failure."""
    warm_up(lambda: pages.installation(for_pages=True))  # as the api-server does when it starts
    with pages.browser("bob") as browser:

        def seconds(path: str) -> tuple[float, int]:
            began = time.process_time()
            response = browser.get(path)
            passed = time.process_time() - began
            assert response.status_code == 200, (path, response.text[-500:])
            return passed, len(response.content)

        for path in paths:
            first, size_bytes = seconds(path)
            usual = median(seconds(path)[0] for _ in range(repeats))
            yield Timed(path, first, usual, size_bytes)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=200)
    parser.add_argument("--snapshots", type=int, default=2_000)
    parser.add_argument("--moves", type=int, default=60_000)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="an empty folder to make it in")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        fleet = make_fleet(folder, arguments.clusters, arguments.snapshots, arguments.moves)
        is_met = True
        for timed in measure(fleet.pages, pages_of(fleet)):
            max_bytes = max_bytes_of(timed.path)
            is_met &= timed.seconds <= MAX_SECONDS
            is_met &= max_bytes is None or timed.size_bytes <= max_bytes
            limit = f" (at most {max_bytes / 1000:.0f})" if max_bytes else ""
            if timed.path in first_views_of(fleet):
                is_met &= timed.first_seconds <= MAX_SECONDS
            print(
                f"{timed.path:56} {timed.seconds * 1000:6.0f} ms (at most "
                f"{MAX_SECONDS * 1000:.0f}), first {timed.first_seconds * 1000:6.0f} ms, "
                f"{timed.size_bytes / 1000:7,.0f} kB{limit}",
                flush=True,
            )
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
