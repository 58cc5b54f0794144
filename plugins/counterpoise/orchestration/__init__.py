"""Airflow glue that the Dags in `dags/` use: connections, the approval, the form, the stepping
operator.
"""
