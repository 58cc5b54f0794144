"""What lasts: a real cluster of 20,000 partitions through every stage, and a fleet for a month.

    .venv/bin/python benchmarks/endurance.py brokers [--partitions 20000] [--moves 2000]
    .venv/bin/python benchmarks/endurance.py month [--clusters 200] [--large 10]

`brokers` types the commands of a rebalance against real brokers on this machine, and prints seconds
and the most memory of each (`many_partitions.py`). `month` lets a simulated month pass over
simulated clusters, and prints for each day memory, files and rows (`simulated_month.py`).
Exit code 1 when a target of `month` is missed; `brokers` has none.
"""

import argparse
import logging
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

if __name__ == "__main__":
    # A script's own folder is there, the project's is not.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.ledger_size import database_bytes, ledger_rows, progress_bytes
from benchmarks.machine import load_line, machine_line
from benchmarks.many_partitions import Shape, through_all_stages
from benchmarks.month_checks import differences, month_checks
from benchmarks.simulated_month import Fleet, Month
from benchmarks.tables import table

_MIN_DAYS: Final = 3


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    print(machine_line())
    print(load_line(), flush=True)
    with tempfile.TemporaryDirectory(prefix="endurance-", dir=arguments.folder) as folder:
        if arguments.what == "brokers":
            return _brokers(Path(folder), Shape(arguments.partitions, arguments.moves), arguments)
        fleet = Fleet(
            clusters=arguments.clusters,
            large=arguments.large,
            days=arguments.days,
            partitions_of_large=arguments.partitions_of_large,
            snapshot_every_hours=arguments.hours,
            analysed_every_days=arguments.analysed_every,
        )
        return _month(Month(Path(folder), fleet), arguments)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--folder", help="for temporary files (default: that of the system)")
    shared.add_argument("--markdown", action="store_true", help="print tables as Markdown")
    parts = parser.add_subparsers(dest="what", required=True)
    brokers = parts.add_parser("brokers", parents=[shared], help="a real cluster, stage by stage")
    brokers.add_argument("--partitions", type=int, default=20_000)
    brokers.add_argument("--moves", type=int, default=2_000)
    month = parts.add_parser("month", parents=[shared], help="a fleet for a simulated month")
    month.add_argument("--clusters", type=int, default=200)
    month.add_argument("--large", type=int, default=10, help="so many of them are large")
    month.add_argument("--partitions-of-large", type=int, default=2_000)
    month.add_argument("--days", type=int, default=30)
    month.add_argument("--hours", type=int, default=24, help="from snapshot to snapshot")
    month.add_argument("--analysed-every", type=int, default=15, help="days, compaction as well")
    arguments = parser.parse_args(argv)
    if arguments.what == "month" and arguments.days < _MIN_DAYS:
        parser.error(f"--days: at least {_MIN_DAYS}, of which the last third is compared")
    return arguments


def _brokers(folder: Path, shape: Shape, arguments: argparse.Namespace) -> int:
    rows = [("stage", "of", "s", "peak MiB")]
    for stage in through_all_stages(folder, shape):
        peak = "-" if stage.peak_bytes is None else f"{stage.peak_bytes / 2**20:,.0f}"
        of = f"{shape.moves:,} moves" if stage.name == "execute" else f"{shape.partitions:,}"
        rows.append((stage.name, of, f"{stage.seconds:.1f}", peak))
        print(f"  {stage.name}: {stage.seconds:.1f} s, {peak} MiB", file=sys.stderr, flush=True)
    print("\n" + table(rows, is_markdown=arguments.markdown) + "\n")
    _print_ledger(folder / "ledger.db")
    return 0


def _print_ledger(database: Path) -> None:
    print(f"ledger: {database_bytes(database):,} bytes")
    print(f"  {progress_bytes(database):,} bytes of them are the last progress of runs")
    for name, count in ledger_rows(database).items():
        print(f"  {count:7,d}  rows of {name}")


def _month(month: Month, arguments: argparse.Namespace) -> int:
    logging.disable(logging.WARNING)  # each audit warns that there is no network
    print(month.fleet)
    rows = [("day", "", "memory MiB", "files", "store MB", "ledger rows", "ledger kB")]
    days = []
    for day in month.days():
        days.append(day)
        cells = (
            f"{day.rss_bytes / 2**20:,.0f}",
            f"{day.files:,}",
            f"{day.store_bytes / 1e6:,.1f}",
            f"{day.ledger_rows:,}",
            f"{day.database_bytes / 1e3:,.0f}",
        )
        rows.append((str(day.number), "", *cells))
        print(f"  {rows[-1]}", file=sys.stderr, flush=True)
    print("\n" + table(rows, is_markdown=arguments.markdown) + "\n")
    for stage, seconds in sorted(month.seconds.items()):
        print(f"{stage}: {seconds:.1f} CPU s in all")
    print(f"runs: {dict(month.runs)}; {month.pruned_rows:,} rows deleted by `ledger prune`")
    _print_ledger(month.database)
    found = month_checks(days, list(differences(month)))
    for check in found:
        print(check)
    return 0 if all(check.is_met for check in found) else 1


if __name__ == "__main__":
    sys.exit(main())
