"""Requests: what is wrong with a request or its scope, and what must be refused."""
