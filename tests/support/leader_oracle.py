"""The least that the largest bytes-in of leaders can be, by a solver that knows nothing of ours.

    least = least_largest_rate(replica_sets, leaders, rates)

Replica sets, leaders per broker and leaders of each topic are given: the sum of squares of the
leaders per broker, over all and for each topic, may not grow.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ortools.sat.python import cp_model

Key = tuple[str, int]
_WORK = 4.0  # in the solver's own unit


def least_largest_rate(
    replica_sets: Mapping[Key, Sequence[int]],
    leaders: Mapping[Key, int],
    rates: Mapping[Key, int],
) -> int:
    """Return the largest bytes-in of a broker, as small as the solver finds it."""
    model = cp_model.CpModel()
    leads = {(key, b): model.new_bool_var("") for key, row in replica_sets.items() for b in row}
    for key, row in replica_sets.items():
        model.add_exactly_one(leads[key, broker] for broker in row)
    topics = {topic for topic, _ in replica_sets}
    _keep_squares(model, leads, leaders, replica_sets.keys())
    for topic in sorted(topics):
        _keep_squares(model, leads, leaders, [key for key in replica_sets if key[0] == topic])
    largest = model.new_int_var(0, sum(rates.values()), "")
    for broker in {broker for row in replica_sets.values() for broker in row}:
        model.add(
            sum(var * rates[key] for (key, b), var in leads.items() if b == broker) <= largest
        )
    for (key, broker), var in leads.items():
        model.add_hint(var, leaders[key] == broker)
    model.minimize(largest)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = _WORK
    assert solver.solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    return round(solver.objective_value)


def _keep_squares(
    model: cp_model.CpModel,
    leads: Mapping[tuple[Key, int], Any],
    leaders: Mapping[Key, int],
    keys: Collection[Key],
) -> None:
    counted = set(keys)
    squares = []
    for broker in sorted({broker for key, broker in leads if key in counted}):
        members = [var for (key, b), var in leads.items() if b == broker and key in counted]
        units = [model.new_bool_var("") for _ in members]
        model.add(sum(members) == sum(units))
        squares += [(2 * number + 1) * unit for number, unit in enumerate(units)]
    now = Counter(leaders[key] for key in counted)
    model.add(sum(squares) <= sum(count * count for count in now.values()))
