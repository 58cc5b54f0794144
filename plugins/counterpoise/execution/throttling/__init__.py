"""The way of a throttle: what moves need, whether brokers act on it, and back to what was before.

1. `targets`: the keys that moves need, what is missing, what others removed
2. `read_back`: which brokers report them; nothing is submitted before that
3. `restore`: what is not needed any more goes back, and at the end of a run all of it
4. `pending_restores`: what a run that has ended could not restore

`decide` chooses when, `command_executor` makes the calls.
"""
