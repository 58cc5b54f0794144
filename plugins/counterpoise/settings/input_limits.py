"""Lets the settings say how large inputs may be.

limit_inputs(os.environ)
read_input(path, "plan", DOCUMENTS)      # up to inputs.max_document of clusters.yaml
"""

import os
from collections.abc import Mapping
from functools import cache

from counterpoise.errors import InputError
from counterpoise.input_files import InputLimits, use_limits
from counterpoise.settings.clusters import read_settings
from counterpoise.settings.locations import Locations


def limit_inputs(environment: Mapping[str, str] = os.environ) -> None:
    """Use the limits of the file that the environment names, once an input may be too large.

    Where it cannot be read, the defaults hold: whoever needs the settings says what is wrong.
    """

    @cache
    def limits() -> InputLimits:
        try:
            return read_settings(Locations.from_environment(environment).settings_file).inputs
        except InputError:
            return InputLimits()

    use_limits(limits)
