"""What Airflow finds by the entry points of the wheel: plugin, provider, Dag bundle.

They are above all other floors: each puts together what others have made.
"""
