"""Answers to questions of a Dag run that `dag.test` runs.

    with answered_by(answer):       # called again and again while `approve` waits for the ledger
        dag.test()

`dag.test` runs a trigger in the process of the task, and nothing beside it: `answer` is called in
place of the trigger that reads the ledger, until it has news.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from airflow.sdk.definitions import dag as dag_module
from airflow.triggers.base import TriggerEvent

from counterpoise.installation import open_installation
from counterpoise.orchestration.approval import LedgerTrigger


@contextmanager
def answered_by(answer: Callable[[], object]) -> Iterator[None]:
    in_line: Any = dag_module._run_inline_trigger  # type: ignore[attr-defined]

    def ask_or_run(trigger: Any, task_instance: Any) -> Any:
        if not isinstance(trigger, LedgerTrigger):
            return in_line(trigger, task_instance)
        while not _has_news(trigger):
            answer()
        return TriggerEvent("the ledger has news")  # type: ignore[no-untyped-call]

    dag_module._run_inline_trigger = ask_or_run  # type: ignore[attr-defined]
    try:
        yield
    finally:
        dag_module._run_inline_trigger = in_line  # type: ignore[attr-defined]


def _has_news(trigger: LedgerTrigger) -> bool:
    with open_installation() as installation:
        ledger = installation.ledger
        seen = ledger.answer_seen(trigger.ledger_run_id)
        return seen != trigger.seen or ledger.now() >= trigger.until
