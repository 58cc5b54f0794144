"""The plugin, for an Airflow whose plugins folder is this one.

Limits: where the package is installed Airflow finds the plugin there, and this file adds nothing.
"""

from counterpoise.entry_points.plugin import is_entry_point

if not is_entry_point():
    from counterpoise.entry_points.plugin import CounterpoisePlugin

    __all__ = ["CounterpoisePlugin"]
