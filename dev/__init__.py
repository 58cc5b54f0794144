"""What development and the demo start on this machine: Kafka, Airflow, child processes."""
