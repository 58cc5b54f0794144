"""The cluster: one protocol, both Kafka clients behind it, and a simulated cluster for tests and scale."""
