#!/bin/sh
# Airflow and the ledger have a database and a role each; neither is a superuser, nor sees the other's.
# docs/security.md shows how to give the ledger three roles: to migrate, to write, to read.
set -eu
# psql reads the passwords itself: the list of processes shows what is on a command line.
psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres <<'SQL'
\getenv airflow_password AIRFLOW_DATABASE_PASSWORD
\getenv ledger_password COUNTERPOISE_LEDGER_PASSWORD
CREATE ROLE airflow LOGIN PASSWORD :'airflow_password';
CREATE ROLE counterpoise LOGIN PASSWORD :'ledger_password';
CREATE DATABASE airflow OWNER airflow;
CREATE DATABASE counterpoise OWNER counterpoise;
REVOKE CONNECT ON DATABASE airflow, counterpoise FROM PUBLIC;
SQL
