# One image for Airflow's components and for Spark, so that the driver and the workers run the same Spark and Python.
FROM python:3.11-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends default-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home counterpoise \
    && install --directory --owner=counterpoise /var/lib/airflow /var/lib/counterpoise /var/lib/spark
COPY requirements.txt /tmp/
RUN pip install --no-cache-dir --require-hashes --requirement /tmp/requirements.txt
COPY docker/counterpoise /usr/local/bin/
ENV PYTHONPATH=/opt/counterpoise/plugins PYTHONUNBUFFERED=1 XDG_CACHE_HOME=/tmp/cache MPLCONFIGDIR=/tmp/cache/matplotlib
USER counterpoise
WORKDIR /opt/counterpoise
