"""LocalExecutor with Airflow and ledger on Postgres: components that share no disk, a store on S3.

A scheduler, on whose machine tasks run, that lacks a setting; then the main job by Dags on real
brokers.
"""

from collections.abc import Iterator

import pytest

from tests.support import airflow_place
from tests.support.airflow_machines import S3_SERVER, AirflowMachines
from tests.support.airflow_place import running_place, skip_where_impossible

pytestmark = pytest.mark.timeout(1200)
WORKER = "scheduler"

Place = airflow_place.Place[AirflowMachines]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    skip_where_impossible(S3_SERVER)
    with running_place(tmp_path_factory.mktemp("local"), AirflowMachines, {}) as running:
        yield running


def test_a_scheduler_without_a_setting_refuses_and_goes_on_with_it(place: Place) -> None:
    place.airflow.stop_component(WORKER)
    place.airflow.start_component(WORKER, without=airflow_place.MISSING)
    dag_run_id = airflow_place.refuse_a_snapshot(place, WORKER)
    place.airflow.stop_component(WORKER)
    place.airflow.start_component(WORKER)
    airflow_place.finish_the_snapshot(place, dag_run_id)


def test_the_main_job_needs_no_disk_that_components_share(place: Place) -> None:
    airflow_place.do_the_main_job(place)
    machines = {path.name for path in place.airflow.machines.iterdir()}
    with_tasks = {name for name in machines if place.airflow.logs_of_tasks(name)}
    assert WORKER in with_tasks
    assert with_tasks <= {WORKER, "triggerer"}
