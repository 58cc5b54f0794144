"""Pages behind Airflow's login."""
