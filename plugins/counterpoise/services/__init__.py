"""What people and tasks act on, a file per thing.

    from counterpoise.services import plans

    plans.submit(installation, plan, plans.Origin(alice))

A function takes the `Installation`, and the `Person` where somebody acts; it checks access, reads
or writes, and returns a value. Pages, commands, the JSON API and Dags call the same function.
"""
