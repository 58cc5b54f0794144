"""Where the process `counterpoise` starts: Ctrl-C ends it without a word while modules load."""

import signal


def run() -> None:
    """Run the console script."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from counterpoise.cli import main

    main.run()
