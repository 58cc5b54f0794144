"""The command line: the same wiring as the Dags, usable without Airflow."""
