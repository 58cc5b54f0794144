"""The Dags of the installed package, as a bundle: no folder to copy, no release to mix.

    AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST='[{"name": "counterpoise", "classpath":
      "counterpoise.entry_points.dag_bundle.PackagedDagBundle", "kwargs": {}}]'

Limits: the list replaces Airflow's own, so name the bundles of other Dags in it too. There is one
version at a time: that of the package.
"""

from typing import Any

from airflow.dag_processing.bundles.local import LocalDagBundle

from counterpoise.shipped_files import shipped_folder


class PackagedDagBundle(LocalDagBundle):
    """The folder `dags` that belongs to this code."""

    def __init__(self, **options: Any) -> None:
        super().__init__(path=str(shipped_folder("dags")), **options)
