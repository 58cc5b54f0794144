"""Airflow glue: connections, the approval, the stepping operator.

The Dags in `dags/` are made of these.
"""
