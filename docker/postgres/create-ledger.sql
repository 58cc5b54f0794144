-- The ledger has a database of its own, never Airflow's.
CREATE DATABASE counterpoise;
