"""Reads rows of the ledger's tables as values of the model.

run = read_run(row)                # of `runs`, with `plan_uri` of its plan
"""

from typing import Any

import sqlalchemy as sa

from counterpoise.model.approval import Approval, Decision
from counterpoise.model.control import Control, ControlRequest
from counterpoise.model.run import Run, RunState


def read_run(row: sa.Row[Any]) -> Run:
    return Run(
        run_id=row.run_id,
        cluster=row.cluster,
        fingerprint=row.fingerprint,
        plan_uri=row.plan_uri,
        state=RunState(row.state),
        reason=row.reason,
        opened_at=row.opened_at,
        closed_at=row.closed_at,
        requested_by=row.requested_by,
        dag_id=row.dag_id,
        dag_run_id=row.dag_run_id,
    )


def read_approval(row: sa.Row[Any]) -> Approval:
    return Approval(
        run_id=row.run_id,
        fingerprint=row.fingerprint,
        decision=Decision(row.decision),
        by=row.by,
        reason=row.reason,
        at=row.at,
        rate_bytes_per_second=row.rate_bytes_per_second,
        expires_at=row.expires_at,
    )


def read_request(row: sa.Row[Any]) -> ControlRequest:
    return ControlRequest(
        cluster=row.cluster,
        run_id=row.run_id,
        control=Control(row.control),
        by=row.by,
        why=row.why,
        at=row.at,
        rate_bytes_per_second=row.rate_bytes_per_second,
        until=row.until,
        done_at=row.obeyed_at,
        request_id=row.id,
        broker_id=row.broker_id,
    )
