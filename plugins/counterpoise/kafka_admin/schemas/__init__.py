"""Requests of Kafka's protocol that kafka-python 3.0 has no definition of, as Apache Kafka 4.3
defines them.
"""
