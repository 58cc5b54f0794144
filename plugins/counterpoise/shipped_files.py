"""Where the Dags and Spark jobs are that belong to this code: in its project, or in its wheel.

    shipped_folder("dags")      # /opt/counterpoise/dags, or dags inside the package

The project has them beside `plugins/`; the wheel has them inside the package.
"""

from pathlib import Path
from typing import Final, Literal

_PACKAGE: Final = Path(__file__).resolve().parent


def project_folder() -> Path | None:
    """Return the project whose code this is; None where the package is installed."""
    plugins = _PACKAGE.parent
    return plugins.parent if plugins.name == "plugins" else None


def shipped_folder(name: Literal["dags", "spark_jobs"]) -> Path:
    """Return the folder of that name."""
    return (project_folder() or _PACKAGE) / name
